// Local training of one party, and the test of a model, each in one call: NIID-Bench's CNN, multilayer perceptrons and
// logistic regression, on dense or sparse rows. `silobench.kernels.build` compiles this file for the machine it runs on.
//
// What makes it fast is what a general framework cannot know:
//   - Convolution, 2 x 2 max-pool and ReLU are one pass. LANES pictures go through it side by side, one in each lane of a
//     vector, so that no lane is idle at any picture size. Only the maximum is kept, and where it was.
//   - After the pool one of four convolution outputs has a gradient at most, and none where ReLU is off. Backward, each
//     picture by itself, only those positions are visited.
//   - A dense layer's gradient goes straight from registers into momentum and weights.
//   - Parameters are brought into the order of this file once per call, not once per step.
//   - The first layer of sparse rows moves only the columns that a batch touches; the rest are brought up when they are
//     needed next, by a table of what so many idle steps do.
//
// NaN and infinity take the way they take in PyTorch. There are no exceptions and nothing of the C++ library is linked;
// whatever a caller can get wrong comes back as a `Status`.

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <utility>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define INLINE inline __attribute__((always_inline))

namespace {

// --- vectors: the one place that knows the processor --------------------------------------------------------------------

#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#elif defined(__AVX__)
constexpr int LANES = 8, REGISTERS = 16;
#elif defined(__aarch64__)
constexpr int LANES = 4, REGISTERS = 32;
#else  // where there are no vectors at all, the compiler makes four scalars of one
constexpr int LANES = 4, REGISTERS = 16;
#endif

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef float Eight __attribute__((vector_size(32)));

template <class V = Vec>
INLINE V load(const void* from) {
  V found;
  memcpy(&found, from, sizeof found);
  return found;
}

template <class V>
INLINE void store(void* to, V value) {
  memcpy(to, &value, sizeof value);
}

template <class V = Vec>
INLINE V all(float value) {
  return value - V{};  // and not a sum: 0 + -0 is 0
}

// Bytes as numbers. Some compilers make one insertion for each byte of a plain conversion.
INLINE Vec widened(const uint8_t* from) {
#if defined(__AVX512F__)
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)from)));
#elif defined(__AVX2__)
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)from)));
#else
  typedef uint8_t Bytes __attribute__((vector_size(LANES)));
  return __builtin_convertvector(__builtin_convertvector(load<Bytes>(from), Ints), Vec);
#endif
}

// Lane i of the result is lane Place::of(i) of a and b, one after the other.
#if defined(__clang__)
template <class Place, int... I>
INLINE Vec shuffled(Vec a, Vec b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, Place::of(I)...);
}
#endif
template <class Place>
INLINE Vec shuffled(Vec a, Vec b) {
#if defined(__clang__)
  return shuffled<Place>(a, b, std::make_integer_sequence<int, LANES>());
#else
  Ints from;
  for (int i = 0; i < LANES; i++) from[i] = Place::of(i);
  return __builtin_shuffle(a, b, from);
#endif
}

template <int SIDE>
struct Upper {
  static constexpr int of(int i) { return i & SIDE ? LANES + (i ^ SIDE) : i; }
};
template <int SIDE>
struct Lower {
  static constexpr int of(int i) { return i & SIDE ? LANES + i : i ^ SIDE; }
};

template <int SIDE = 1>
INLINE void transpose_square(Vec* rows) {
  if constexpr (SIDE < LANES) {
    for (int i = 0; i < LANES; i++)
      if (!(i & SIDE)) {
        const Vec a = rows[i], b = rows[i | SIDE];
        rows[i] = shuffled<Upper<SIDE>>(a, b), rows[i | SIDE] = shuffled<Lower<SIDE>>(a, b);
      }
    transpose_square<2 * SIDE>(rows);
  }
}

// to[column][row] = from[row][column], for numbers of four bytes; rows and columns are multiples of LANES.
void transpose(const void* from, ptrdiff_t from_row, void* to, ptrdiff_t to_row, ptrdiff_t rows, ptrdiff_t columns) {
  for (ptrdiff_t r = 0; r < rows; r += LANES)
    for (ptrdiff_t c = 0; c < columns; c += LANES) {
      Vec square[LANES];
      for (int i = 0; i < LANES; i++) square[i] = load((const float*)from + (r + i) * from_row + c);
      transpose_square(square);
      for (int i = 0; i < LANES; i++) store((float*)to + (c + i) * to_row + r, square[i]);
    }
}

constexpr ptrdiff_t padded(ptrdiff_t count) { return (count + LANES - 1) / LANES * LANES; }

// Numbers below 1e-38 count as 0 while one of these lives: a momentum that fades away would slow every step down.
class FlushDenormals {
#if defined(__x86_64__) || defined(__i386__)
  unsigned before = __builtin_ia32_stmxcsr();

 public:
  FlushDenormals() { __builtin_ia32_ldmxcsr(before | 0x8040); }
  ~FlushDenormals() { __builtin_ia32_ldmxcsr(before); }
#elif defined(__aarch64__)
  uint64_t before;

 public:
  FlushDenormals() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" ::"r"(before | 1 << 24));
  }
  ~FlushDenormals() { __asm__ volatile("msr fpcr, %0" ::"r"(before)); }
#endif
};

// Arrays that live as long as this does, filled with zeros unless `is_blank` is false. A vector may be read from the last number of any of them.
class Memory {
  struct Block {
    Block* next;
  };
  Block* blocks = nullptr;

 public:
  bool exhausted = false;
  Memory() = default;
  Memory(const Memory&) = delete;
  ~Memory() {
    while (blocks) {
      Block* next = blocks->next;
      free(blocks);
      blocks = next;
    }
  }
  template <class T>
  T* take(ptrdiff_t count, bool is_blank = true) {
    constexpr size_t head = 64;
    const size_t size = (head + (count + LANES) * sizeof(T) + 63) / 64 * 64;
    char* found = exhausted || count < 0 || count > (ptrdiff_t(1) << 40) ? nullptr : (char*)aligned_alloc(64, size);
    if (!found) {
      exhausted = true;
      return nullptr;
    }
    if (is_blank) memset(found, 0, size);
    ((Block*)found)->next = blocks;
    blocks = (Block*)found;
    return (T*)(found + head);
  }
};

// --- what a caller says -------------------------------------------------------------------------------------------------

enum Status : int32_t { FINE = 0, BAD_SHAPE = 1, BAD_ROW = 2, BAD_LABEL = 3, BAD_COLUMN = 4, NO_MEMORY = 5, BAD_BATCH = 6 };
enum Kind : int32_t { BYTES = 0, FLOATS = 1, SPARSE = 2 };

struct Network {
  int32_t channels, height, width;  // of pictures; channels 0 for a network without convolutions
  int32_t padding;                  // of both convolutions
  int32_t layers;                   // dense ones
  const int32_t* widths;            // layers + 1 of them, from the inputs of the first to the classes
  int32_t reordered;                // whether vectors of its parameters are in this file's order, and not in PyTorch's
};

struct Rows {
  int32_t kind;
  int64_t count;
  int64_t entries;         // of sparse rows
  const void* values;
  const int32_t* columns;  // of sparse rows
  const int32_t* begins;   // count + 1 of them, of sparse rows
  const int64_t* labels;
};

struct Walk {
  const int64_t* order;   // the rows that are visited, one after the other
  const int64_t* sizes;   // of the batches
  int64_t steps;
  const int8_t* windows;  // null, or for each visit: how far a picture's window is shifted down and right, and if mirrored
};

// v <- momentum v + gradient + decay w + strength (w - anchor) + linear, then w <- w - lr (v + drift)
struct Rule {
  float lr, momentum, decay, strength;
  const float *anchor, *linear, *drift;  // each may be null
};

// --- rows as numbers ----------------------------------------------------------------------------------------------------

INLINE void copy_numbers(const float* from, ptrdiff_t count, float* to) { memcpy(to, from, count * sizeof(float)); }

// Bytes as 0 .. 1, rounded as a division by 255 is, which would take longer.
INLINE void copy_numbers(const uint8_t* from, ptrdiff_t count, float* to) {
  constexpr float SHARE = 1.0f / 255;
  ptrdiff_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    const Vec x = widened(from + i), near = x * SHARE;
    store(to + i, near + (x - near * 255.0f) * SHARE);
  }
  for (; i < count; i++) to[i] = float(from[i]) / 255.0f;
}

// Number `PART · LANES + i` of three lines, taken in turns.
template <int PART>
struct OfFirstTwo {
  static constexpr int of(int i) { return (PART * LANES + i) / 3 + (PART * LANES + i) % 3 % 2 * LANES; }
};
template <int PART>
struct OfThird {
  static constexpr int of(int i) { return (PART * LANES + i) % 3 == 2 ? LANES + (PART * LANES + i) / 3 : i; }
};

template <int PART>
INLINE void store_in_turns(Vec a, Vec b, Vec c, float* to) {
  store(to + PART * LANES, shuffled<OfThird<PART>>(shuffled<OfFirstTwo<PART>>(a, b), c));
}

// to[x][channel] = lines[channel][x]
INLINE void interleave(const float* lines, ptrdiff_t channels, ptrdiff_t width, float* to) {
  ptrdiff_t x = 0;
  for (; channels == 3 && x + LANES <= width; x += LANES) {
    const Vec a = load(lines + x), b = load(lines + width + x), c = load(lines + 2 * width + x);
    store_in_turns<0>(a, b, c, to + 3 * x), store_in_turns<1>(a, b, c, to + 3 * x), store_in_turns<2>(a, b, c, to + 3 * x);
  }
  for (; x < width; x++)
    for (ptrdiff_t c = 0; c < channels; c++) to[x * channels + c] = lines[c * width + x];
}

// --- sums of products: every dense layer, forth and back ----------------------------------------------------------------

// done(row, column, Σ_d a[row, d] · b[d, column]) for VECTORS · LANES columns of HIGH rows.
template <int HIGH, int VECTORS, class Done>
INLINE void tile(ptrdiff_t row, ptrdiff_t column, ptrdiff_t depth, const float* a, ptrdiff_t a_row, ptrdiff_t a_depth,
                 const float* b, ptrdiff_t b_row, Done done) {  // a copy: what it points to may be anything
  Vec sums[HIGH][VECTORS] = {};
  a += row * a_row, b += column;
  for (ptrdiff_t d = 0; d < depth; d++, a += a_depth, b += b_row) {
    Vec line[VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) line[v] = load(b + v * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < HIGH; r++) {
      const Vec factor = all(a[r * a_row]);
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++) sums[r][v] += factor * line[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < HIGH; r++)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) done(row + r, column + v * LANES, sums[r][v]);
}

template <int VECTORS, class Done>
INLINE void tall(ptrdiff_t rows, ptrdiff_t column, ptrdiff_t depth, const float* a, ptrdiff_t a_row, ptrdiff_t a_depth,
                 const float* b, ptrdiff_t b_row, const Done& done) {
  constexpr int HIGH = REGISTERS / 4;
  // Two rows by themselves would wait for each sum: they join the last tile where its sums fit the registers.
  constexpr int HIGHER = VECTORS < 3 ? HIGH + 2 : HIGH;
  ptrdiff_t row = 0;
  for (; row + HIGH <= rows && rows - row != HIGHER; row += HIGH)
    tile<HIGH, VECTORS>(row, column, depth, a, a_row, a_depth, b, b_row, done);
  if (rows - row == HIGHER) {
    tile<HIGHER, VECTORS>(row, column, depth, a, a_row, a_depth, b, b_row, done);
    return;
  }
  for (; row + 2 <= rows; row += 2) tile<2, VECTORS>(row, column, depth, a, a_row, a_depth, b, b_row, done);
  if (row < rows) tile<1, VECTORS>(row, column, depth, a, a_row, a_depth, b, b_row, done);
}

// The same for all rows and columns; columns is a multiple of LANES.
template <class Done>
void product(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const float* a, ptrdiff_t a_row, ptrdiff_t a_depth,
             const float* b, ptrdiff_t b_row, const Done& done) {
  ptrdiff_t column = 0;
  for (; column + 3 * LANES <= columns; column += 3 * LANES)
    tall<3>(rows, column, depth, a, a_row, a_depth, b, b_row, done);
  if (columns - column == 2 * LANES)
    tall<2>(rows, column, depth, a, a_row, a_depth, b, b_row, done);
  else if (columns > column)
    tall<1>(rows, column, depth, a, a_row, a_depth, b, b_row, done);
}

// --- the solver's step --------------------------------------------------------------------------------------------------

// Where in its batch a chunk of rows stands: the first meets the old velocity, with the last the weights move.
struct Place {
  bool first, last;
};

// Numbers of a model in the order of this file, with what the rule says of each.
struct Block {
  float *weights = nullptr, *velocity = nullptr;
  const float *anchor = nullptr, *linear = nullptr, *drift = nullptr;

  INLINE Block at(ptrdiff_t offset) const {
    Block found{weights + offset, velocity + offset, anchor, linear, drift};
    if (anchor) found.anchor += offset;
    if (linear) found.linear += offset;
    if (drift) found.drift += offset;
    return found;
  }
};

template <class V>
INLINE void descend(const Block& to, ptrdiff_t i, V gradient, const Rule& rule, Place place) {
  V w = load<V>(to.weights + i), v = load<V>(to.velocity + i);
  if (place.first) {
    gradient += rule.decay * w;
    if (to.anchor) gradient += rule.strength * (w - load<V>(to.anchor + i));
    if (to.linear) gradient += load<V>(to.linear + i);
    v = rule.momentum * v;
  }
  v += gradient;
  store(to.velocity + i, v);
  if (!place.last) return;
  w -= rule.lr * v;
  if (to.drift) w -= rule.lr * load<V>(to.drift + i);
  store(to.weights + i, w);
}

// A number as it is stored: a compiler must not round the product in it together with a sum that follows.
template <class V>
INLINE V rounded(V value) {
#if defined(__x86_64__) || defined(__i386__)
  __asm__("" : "+x"(value));
#elif defined(__aarch64__)
  __asm__("" : "+w"(value));
#endif
  return value;
}

// Most steps have the whole batch at once, and no pull: `descend` without its questions, and with its bits.
struct PlainStep {
  float *weights, *velocity;
  float lr, momentum, decay;
  ptrdiff_t line;

  INLINE void operator()(ptrdiff_t row, ptrdiff_t column, Vec gradient) const {
    const ptrdiff_t i = row * line + column;
    const Vec w = load(weights + i);
    gradient += decay * w;
    const Vec v = rounded(momentum * load(velocity + i)) + gradient;
    store(velocity + i, v);
    store(weights + i, w - lr * v);
  }
};

// --- dense layers -------------------------------------------------------------------------------------------------------

struct Layer {
  ptrdiff_t in, out, line;  // `line` numbers for the weights of an input, and for the values of a row: outputs, padded
  Block weights, bias;
  float *values, *errors;  // of a chunk of rows
  float* turned;           // weights[out][in padded], for errors on their way back
};

INLINE Vec relu(Vec x) { return x <= 0 ? Vec{} : x; }  // so NaN stays

void forward(const Layer& layer, ptrdiff_t rows, const float* x, ptrdiff_t x_line, bool last) {
  const float* bias = layer.bias.weights;
  float* values = layer.values;
  const ptrdiff_t line = layer.line;
  if (last)
    product(rows, line, layer.in, x, x_line, 1, layer.weights.weights, line,
            [=](ptrdiff_t r, ptrdiff_t c, Vec sum) { store(values + r * line + c, sum + load(bias + c)); });
  else
    product(rows, line, layer.in, x, x_line, 1, layer.weights.weights, line,
            [=](ptrdiff_t r, ptrdiff_t c, Vec sum) { store(values + r * line + c, relu(sum + load(bias + c))); });
}

// What the errors of a layer say of those of its inputs, where these are on.
void backward(const Layer& layer, ptrdiff_t rows, const float* x, ptrdiff_t x_line, float* errors) {
  const ptrdiff_t inputs = padded(layer.in);
  transpose(layer.weights.weights, layer.line, layer.turned, inputs, inputs, layer.line);
  product(rows, inputs, layer.out, layer.errors, layer.line, 1, layer.turned, inputs,
          [=](ptrdiff_t r, ptrdiff_t c, Vec sum) {
            store(errors + r * x_line + c, load(x + r * x_line + c) <= 0 ? Vec{} : sum);
          });
}

void descend_bias(const Layer& layer, ptrdiff_t rows, const Rule& rule, Place place) {
  constexpr int PARTS = 8;  // sums of sums: a long sum of numbers of either sign loses what is small
  for (ptrdiff_t c = 0; c < layer.line; c += LANES) {
    Vec sums[PARTS] = {};
    for (ptrdiff_t r = 0; r < rows; r++) sums[r % PARTS] += load(layer.errors + r * layer.line + c);
    for (int half = PARTS / 2; half > 0; half /= 2)
      for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    descend<Vec>(layer.bias, c, sums[0], rule, place);
  }
}

void descend_layer(const Layer& layer, ptrdiff_t rows, const float* x, ptrdiff_t x_line, const Rule& rule, Place place) {
  const Block& to = layer.weights;
  const ptrdiff_t line = layer.line;
  if (place.first && place.last && !to.anchor && !to.linear && !to.drift)
    product(layer.in, line, rows, x, 1, x_line, layer.errors, line,
            PlainStep{to.weights, to.velocity, rule.lr, rule.momentum, rule.decay, line});
  else
    product(layer.in, line, rows, x, 1, x_line, layer.errors, line,
            [&](ptrdiff_t r, ptrdiff_t c, Vec sum) { descend<Vec>(to, r * line + c, sum, rule, place); });
  descend_bias(layer, rows, rule, place);
}

// The cross-entropy of a row; errors become its gradient, divided by the rows of the batch.
float cross_entropy(const float* logits, ptrdiff_t classes, int64_t label, float share, float* errors) {
  float top = logits[0];
  for (ptrdiff_t k = 1; k < classes; k++) top = logits[k] > top ? logits[k] : top;
  double sum = 0;
  for (ptrdiff_t k = 0; k < classes; k++) sum += errors[k] = expf(logits[k] - top);
  const double scale = double(share) / sum;
  for (ptrdiff_t k = 0; k < classes; k++) errors[k] = float(errors[k] * scale - (k == label ? double(share) : 0.0));
  return logf(float(sum)) - (logits[label] - top);
}

// The most likely class, the first of equals; NaN counts as the largest number, as in PyTorch.
ptrdiff_t likeliest(const float* logits, ptrdiff_t classes) {
  ptrdiff_t best = 0;
  for (ptrdiff_t k = 1; k < classes; k++)
    if (logits[k] > logits[best] || (isnan(logits[k]) && !isnan(logits[best]))) best = k;
  return best;
}

// --- the first layer of sparse rows ---------------------------------------------------------------------------------------

// What t steps without a gradient make of (w, v), where `constant` is linear - strength · anchor:
// w + (w_of_w w + w_of_v v + w_of_constant constant + w_of_drift drift), and v likewise.
struct Idle {
  float w_of_w, w_of_v, w_of_constant, w_of_drift, v_of_w, v_of_v, v_of_constant, v_of_drift;
};

void fill_idle(Idle* idle, int64_t steps, const Rule& rule) {
  const double lean = double(rule.decay) + double(rule.strength), lr = rule.lr, momentum = rule.momentum;
  double w[4] = {1, 0, 0, 0}, v[4] = {0, 1, 0, 0};  // as sums of w, v, constant and drift
  const double constant[4] = {0, 0, 1, 0}, drift[4] = {0, 0, 0, 1};
  for (int64_t t = 0; t <= steps; t++) {
    idle[t] = {float(w[0] - 1), float(w[1]), float(w[2]), float(w[3]),
               float(v[0]),     float(v[1]), float(v[2]), float(v[3])};
    for (int i = 0; i < 4; i++) v[i] = momentum * v[i] + lean * w[i] + constant[i];
    for (int i = 0; i < 4; i++) w[i] -= lr * (v[i] + drift[i]);
  }
}

// Rows lie all over memory: ask for one in time.
INLINE void await_row(const Rows& rows, int64_t row) {
  for (int64_t i = rows.begins[row]; i < rows.begins[row + 1]; i += 16)
    __builtin_prefetch(rows.columns + i), __builtin_prefetch((const float*)rows.values + i);
}

// An entry of a batch, and its row in the batch.
struct Entry {
  int32_t column, row;
  float x;
};

// The entries of a batch by column, and for each column by row. A radix sort: it keeps the order of rows, and a batch fits
// the cache.
class BatchColumns {
  static constexpr int BITS = 8, DIGITS = 1 << BITS, MOST_PASSES = 4;
  int passes;
  Entry* other;

 public:
  Entry* entries;
  int32_t* begins;  // of the columns among the entries, and the end of the last one
  int32_t count;    // of the columns

  bool prepare(Memory& memory, int64_t most_entries, ptrdiff_t columns) {
    for (passes = 1; columns > ptrdiff_t(1) << BITS * passes;) passes++;
    entries = memory.take<Entry>(most_entries, false), other = memory.take<Entry>(most_entries, false);
    begins = memory.take<int32_t>(most_entries + 1, false);
    return !memory.exhausted;
  }

  void collect(const Rows& rows, const int64_t* order, ptrdiff_t size) {
    int32_t places[MOST_PASSES][DIGITS] = {}, end = 0;
    for (ptrdiff_t r = 0; r < size; r++) {
      if (r + 3 < size) await_row(rows, order[r + 3]);
      for (int64_t i = rows.begins[order[r]]; i < rows.begins[order[r] + 1]; i++) {
        const int32_t column = rows.columns[i];
        entries[end++] = {column, int32_t(r), ((const float*)rows.values)[i]};
        for (int pass = 0; pass < passes; pass++) places[pass][digit(column, pass)]++;
      }
    }
    for (int pass = 0; pass < passes; pass++) sort(places[pass], end, pass);
    count = 0;
    for (int32_t e = 0; e < end; e++) {
      begins[count] = e;
      count += e == 0 || entries[e].column != entries[e - 1].column;
    }
    begins[count] = end;
  }

  INLINE int32_t column(int32_t place) const { return entries[begins[place]].column; }

 private:
  static int digit(int32_t column, int pass) { return column >> BITS * pass & (DIGITS - 1); }

  void sort(int32_t* places, int32_t end, int pass) {
    for (int32_t d = 0, before = 0; d < DIGITS; d++) {
      const int32_t size = places[d];
      places[d] = before, before += size;
    }
    for (int32_t e = 0; e < end; e++) other[places[digit(entries[e].column, pass)]++] = entries[e];
    std::swap(entries, other);
  }
};

struct SparseLayer {
  ptrdiff_t columns, line;
  Block block;            // [columns][line]
  const float* constant;  // of the same, or null
  const Idle* idle;
  bool from_rest;         // velocities begin at 0 and end with the call; a column's are not set before its first step
  int32_t* done;          // steps that a column has seen
  BatchColumns batch;

  // Do to a column what the steps since its last one do, up to `step`. After the last step of all nobody needs velocities
  // that end with the call.
  template <bool LAST = false>
  INLINE void bring(int32_t column, int32_t step) const {
    const int32_t missed = step - done[column];
    const bool rests = from_rest && done[column] == 0;
    float *weights = block.weights + column * line, *velocities = block.velocity + column * line;
    if (missed == 0) {
      if (rests) memset(velocities, 0, line * sizeof(float));
      return;
    }
    done[column] = step;
    const Idle& by = idle[missed];
    for (ptrdiff_t i = 0; i < line; i += LANES) {
      const Vec w = load(weights + i), v = rests ? Vec{} : load(velocities + i);
      Vec change = by.w_of_w * w + by.w_of_v * v, velocity = by.v_of_w * w + by.v_of_v * v;
      if (constant) {
        const Vec of_column = load(constant + column * line + i);
        change += by.w_of_constant * of_column;
        velocity += by.v_of_constant * of_column;
      }
      if (block.drift) {
        const Vec of_column = load(block.drift + column * line + i);
        change += by.w_of_drift * of_column;
        velocity += by.v_of_drift * of_column;
      }
      store(weights + i, w + change);
      if (!LAST || !from_rest) store(velocities + i, velocity);
    }
  }

  INLINE void await(int32_t place) const {
    constexpr int AHEAD = 8;  // columns lie all over memory: ask for them in time
    if (place + AHEAD >= batch.count) return;
    const ptrdiff_t offset = batch.column(place + AHEAD) * line;
    for (ptrdiff_t i = 0; i < line && i < 64; i += 16)
      __builtin_prefetch(block.weights + offset + i), __builtin_prefetch(block.velocity + offset + i);
  }

  // Collect a batch and bring its columns up to date.
  void begin(const Rows& rows, const int64_t* order, ptrdiff_t size, int32_t step) {
    batch.collect(rows, order, size);
    for (int32_t t = 0; t < batch.count; t++) await(t), bring(batch.column(t), step);
  }
};

// values[row] = relu(Σ x w + bias), of VECTORS · LANES outputs from `at` on.
template <int VECTORS>
INLINE void add_columns(const SparseLayer& sparse, const Layer& layer, const Rows& rows, int64_t row, ptrdiff_t at,
                        bool last, float* values) {
  const float* x = (const float*)rows.values;
  Vec sums[VECTORS] = {};
  for (int64_t i = rows.begins[row]; i < rows.begins[row + 1]; i++) {
    const float* weights = sparse.block.weights + rows.columns[i] * sparse.line + at;
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) sums[v] += x[i] * load(weights + v * LANES);
  }
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; v++) {
    const Vec sum = sums[v] + load(layer.bias.weights + at + v * LANES);
    store(values + at + v * LANES, last ? sum : relu(sum));
  }
}

void forward_sparse(const SparseLayer& sparse, const Layer& layer, const Rows& rows, const int64_t* order, ptrdiff_t count,
                    bool last) {
  for (ptrdiff_t r = 0; r < count; r++) {
    float* values = layer.values + r * layer.line;
    ptrdiff_t at = 0;
    for (; at + 4 * LANES <= layer.line; at += 4 * LANES) add_columns<4>(sparse, layer, rows, order[r], at, last, values);
    for (; at + 2 * LANES <= layer.line; at += 2 * LANES) add_columns<2>(sparse, layer, rows, order[r], at, last, values);
    if (at < layer.line) add_columns<1>(sparse, layer, rows, order[r], at, last, values);
  }
}

// Move VECTORS · LANES weights of a column by its entries. The gradient stays in registers, and the errors in the cache.
template <int VECTORS>
INLINE void descend_column(const SparseLayer& sparse, const Entry* entries, int32_t count, ptrdiff_t at,
                           const float* errors, const Rule& rule) {
  Vec sums[VECTORS] = {};
  for (int32_t e = 0; e < count; e++) {
    const float* of_row = errors + entries[e].row * sparse.line + at;
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) sums[v] += entries[e].x * load(of_row + v * LANES);
  }
  const ptrdiff_t offset = entries->column * sparse.line + at;
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; v++) descend<Vec>(sparse.block, offset + v * LANES, sums[v], rule, {true, true});
}

// Move each column of a batch once.
void descend_sparse(const SparseLayer& sparse, const float* errors, int32_t step, const Rule& rule) {
  const BatchColumns& batch = sparse.batch;
  for (int32_t t = 0; t < batch.count; t++) {
    const Entry* entries = batch.entries + batch.begins[t];
    const int32_t count = batch.begins[t + 1] - batch.begins[t];
    sparse.await(t);
    sparse.done[entries->column] = step + 1;
    ptrdiff_t at = 0;
    for (; at + 4 * LANES <= sparse.line; at += 4 * LANES) descend_column<4>(sparse, entries, count, at, errors, rule);
    for (; at + 2 * LANES <= sparse.line; at += 2 * LANES) descend_column<2>(sparse, entries, count, at, errors, rule);
    if (at < sparse.line) descend_column<1>(sparse, entries, count, at, errors, rule);
  }
}

// --- convolutions -------------------------------------------------------------------------------------------------------

constexpr int KERNEL = 5, TAPS = KERNEL * KERNEL, FIRST = 6, SECOND = 16;
constexpr int GRADIENT_PIXEL = 8;  // numbers for a pixel of FIRST channels on the way back

// A picture's sizes: as it comes, with its padding, after the first pool (with padding), after the second.
struct Sizes {
  ptrdiff_t channels, height, width, padding;
  ptrdiff_t padded_height, padded_width, middle_rows, middle_columns, middle_height, middle_width, rows, columns;
  ptrdiff_t pixels() const { return padded_height * padded_width; }
  ptrdiff_t middle_pixels() const { return middle_height * middle_width; }
};

constexpr Sizes sizes(ptrdiff_t channels, ptrdiff_t height, ptrdiff_t width, ptrdiff_t padding) {
  Sizes s{channels, height, width, padding, height + 2 * padding, width + 2 * padding, 0, 0, 0, 0, 0, 0};
  s.middle_rows = (s.padded_height - KERNEL + 1) / 2, s.middle_columns = (s.padded_width - KERNEL + 1) / 2;
  s.middle_height = s.middle_rows + 2 * padding, s.middle_width = s.middle_columns + 2 * padding;
  s.rows = (s.middle_height - KERNEL + 1) / 2, s.columns = (s.middle_width - KERNEL + 1) / 2;
  return s;
}

template <int CHANNELS, int HEIGHT, int WIDTH, int PADDING>
struct Known {  // so that the compiler sees the numbers
  static constexpr Sizes of = sizes(CHANNELS, HEIGHT, WIDTH, PADDING);
  explicit Known(const Sizes&) {}
};

struct Unknown {
  const Sizes of;
  explicit Unknown(const Sizes& s) : of(s) {}
};

// The maximum of four, and at which of four places; the first of equals. NaN is larger than any number.
INLINE void keep_larger(Vec& top, Ints& at, Vec other, int32_t place) {
  const Ints larger = (other > top) | (other != other);
  top = larger ? other : top;
  at = larger ? place - Ints{} : at;
}

// Four neighbouring outputs (a 2 x 2 window) of BLOCK channels. in: [y][x][channel][LANES], `row` numbers a line.
// weights: [channel][ky][kx][BLOCK].
template <int BLOCK>
INLINE void convolve_window(const float* in, ptrdiff_t row, ptrdiff_t channels, const float* weights, const float* bias,
                            Vec (&out)[4][BLOCK]) {
#pragma GCC unroll 8
  for (int o = 0; o < BLOCK; o++) out[0][o] = out[1][o] = out[2][o] = out[3][o] = all(bias[o]);
  for (ptrdiff_t channel = 0; channel < channels; channel++)
    for (int ky = 0; ky < KERNEL; ky++) {
      const float *upper = in + ky * row + channel * LANES, *lower = upper + row;
      Vec a = load(upper), c = load(lower);
#pragma GCC unroll 5
      for (int kx = 0; kx < KERNEL; kx++, weights += BLOCK) {
        const Vec b = load(upper + (kx + 1) * channels * LANES), d = load(lower + (kx + 1) * channels * LANES);
#pragma GCC unroll 8
        for (int o = 0; o < BLOCK; o++) {
          const Vec w = all(weights[o]);
          out[0][o] += w * a, out[1][o] += w * b, out[2][o] += w * c, out[3][o] += w * d;
        }
        a = b, c = d;
      }
    }
}

// Convolution, pool and ReLU of LANES pictures. out: [y][x][OUT][LANES], lines of `out_width` pixels; where: for each
// pooled number the pixel of `in` at which its window of the convolution begins, -1 where ReLU is off.
template <int OUT, int BLOCK>
INLINE void convolve(const float* in, ptrdiff_t channels, ptrdiff_t width, const float* weights, const float* bias,
                     ptrdiff_t rows, ptrdiff_t columns, float* out, ptrdiff_t out_width, int32_t* where) {
  static_assert(OUT % BLOCK == 0, "");
  for (ptrdiff_t y = 0; y < rows; y++)
    for (int block = 0; block < OUT; block += BLOCK)
      for (ptrdiff_t x = 0; x < columns; x++) {
        const ptrdiff_t pixel = 2 * y * width + 2 * x;
        Vec window[4][BLOCK];
        convolve_window<BLOCK>(in + pixel * channels * LANES, width * channels * LANES, channels,
                               weights + block * channels * TAPS, bias + block, window);
#pragma GCC unroll 8
        for (int o = 0; o < BLOCK; o++) {
          Vec top = window[0][o];
          Ints at = int32_t(pixel) - Ints{};
          keep_larger(top, at, window[1][o], int32_t(pixel + 1));
          keep_larger(top, at, window[2][o], int32_t(pixel + width));
          keep_larger(top, at, window[3][o], int32_t(pixel + width + 1));
          const Ints off = top <= 0;
          store(out + ((y * out_width + x) * OUT + block + o) * LANES, off ? Vec{} : top);
          store(where + ((y * columns + x) * OUT + block + o) * LANES, off ? -1 - Ints{} : at);
        }
      }
}

// The positions of one channel of one picture that have a gradient.
struct Active {
  int32_t* pixels;
  float* errors;
  ptrdiff_t count;

  INLINE void add(int32_t pixel, float error) {
    pixels[count] = pixel, errors[count] = error;
    count += pixel >= 0;  // without a branch: which ones are on cannot be foreseen
  }
};

// total[ky][..] += Σ error · (KERNEL pixels of a picture's line, from the active position on), which is the gradient of one
// output channel's weights. Lines of `total` are padded to whole vectors.
INLINE void add_patches(const float* picture, ptrdiff_t channels, ptrdiff_t width, const Active& on, float* total) {
  const ptrdiff_t line = KERNEL * channels, row = width * channels;
  for (ptrdiff_t at = 0; at < line; at += LANES) {
    Vec even[KERNEL] = {}, odd[KERNEL] = {};  // two chains of sums hide the time that one addition takes
    ptrdiff_t i = 0;
    for (; i + 2 <= on.count; i += 2) {
      const float *one = picture + on.pixels[i] * channels + at, *two = picture + on.pixels[i + 1] * channels + at;
#pragma GCC unroll 5
      for (int ky = 0; ky < KERNEL; ky++) {
        even[ky] += on.errors[i] * load(one + ky * row);
        odd[ky] += on.errors[i + 1] * load(two + ky * row);
      }
    }
    if (i < on.count)
      for (int ky = 0; ky < KERNEL; ky++)
        even[ky] += on.errors[i] * load(picture + on.pixels[i] * channels + at + ky * row);
    for (int ky = 0; ky < KERNEL; ky++) {
      float* to = total + ky * padded(line) + at;
      store(to, load(to) + (even[ky] + odd[ky]));
    }
  }
}

// errors[pixel] += error · weights, for all taps around each active position. weights: [tap][GRADIENT_PIXEL].
INLINE void spread(const Active& on, const float* weights, ptrdiff_t width, float* errors) {
  for (ptrdiff_t i = 0; i < on.count; i++) {
    const Eight error = all<Eight>(on.errors[i]);
    float* corner = errors + on.pixels[i] * GRADIENT_PIXEL;
#pragma GCC unroll 5
    for (int ky = 0; ky < KERNEL; ky++)
#pragma GCC unroll 5
      for (int kx = 0; kx < KERNEL; kx++) {
        float* to = corner + (ky * width + kx) * GRADIENT_PIXEL;
        store(to, load<Eight>(to) + error * load<Eight>(weights + (ky * KERNEL + kx) * GRADIENT_PIXEL));
      }
  }
}

INLINE float sum_of(const Active& on) {
  float sum = 0;
  for (ptrdiff_t i = 0; i < on.count; i++) sum += on.errors[i];
  return sum;
}

// A convolution's parameters and their gradient, [out][ky][kx][in], and what is derived from the weights.
template <int OUT, int BLOCK>
struct Convolution {
  ptrdiff_t channels;
  Block weights, bias;
  float *gradient, *bias_gradient;  // gradient: [out][ky][kx, in: padded]
  float* by_block;                  // [out / BLOCK][in][ky][kx][BLOCK]

  ptrdiff_t line() const { return KERNEL * channels; }
  float* gradient_of(int out) const { return gradient + out * KERNEL * padded(line()); }

  void prepare(Memory& memory, ptrdiff_t in) {
    channels = in;
    gradient = memory.take<float>(OUT * KERNEL * padded(line()));
    bias_gradient = memory.take<float>(OUT);
    by_block = memory.take<float>(OUT * channels * TAPS);
  }

  void derive() {
    for (ptrdiff_t o = 0; o < OUT; o++)
      for (ptrdiff_t tap = 0; tap < TAPS; tap++)
        for (ptrdiff_t c = 0; c < channels; c++)
          by_block[((o / BLOCK * channels + c) * TAPS + tap) * BLOCK + o % BLOCK] =
              weights.weights[(o * TAPS + tap) * channels + c];
  }

  void step(const Rule& rule) {
    const Place whole{true, true};
    typedef float One __attribute__((vector_size(4)));
    for (ptrdiff_t o = 0; o < OUT; o++)
      for (ptrdiff_t ky = 0; ky < KERNEL; ky++)
        for (ptrdiff_t i = 0; i < line(); i++)
          descend(weights, (o * KERNEL + ky) * line() + i, all<One>(gradient[(o * KERNEL + ky) * padded(line()) + i]), rule, whole);
    for (ptrdiff_t o = 0; o < OUT; o++) descend(bias, o, all<One>(bias_gradient[o]), rule, whole);
    memset(gradient, 0, OUT * KERNEL * padded(line()) * sizeof(float));
    memset(bias_gradient, 0, OUT * sizeof(float));
    derive();
  }
};

// A picture as it lies among the rows, to [y][x][channel] with its padding; through a shifted, mirrored window if asked for.
template <class T>
INLINE void read_picture(const Sizes& s, const T* from, float* line, float* to) {
  for (ptrdiff_t y = 0; y < s.height; y++) {
    float* pixels = to + ((y + s.padding) * s.padded_width + s.padding) * s.channels;
    for (ptrdiff_t c = 0; c < s.channels; c++)
      copy_numbers(from + (c * s.height + y) * s.width, s.width, s.channels == 1 ? pixels : line + c * s.width);
    if (s.channels > 1) interleave(line, s.channels, s.width, pixels);
  }
}

// Positions beyond an edge are mirrored in it: what a window shows that was shifted by up to 4 pixels.
ptrdiff_t reflected(ptrdiff_t at, ptrdiff_t side) {
  at = at < 0 ? -at : at;
  at = at >= side ? 2 * (side - 1) - at : at;
  return at < 0 ? 0 : at;
}

template <class T>
void read_window(const Sizes& s, const T* from, const int8_t* window, float* line, float* to) {
  for (ptrdiff_t y = 0; y < s.height; y++)
    for (ptrdiff_t c = 0; c < s.channels; c++) {
      copy_numbers(from + (c * s.height + reflected(y + window[0], s.height)) * s.width, s.width, line);
      for (ptrdiff_t x = 0; x < s.width; x++)
        to[((y + s.padding) * s.padded_width + x + s.padding) * s.channels + c] =
            line[reflected((window[2] ? s.width - 1 - x : x) + window[1], s.width)];
    }
}

template <class Shape>
void read(const Shape& shape, const Rows& rows, int64_t row, const int8_t* window, float* line, float* to) {
  const ptrdiff_t offset = row * shape.of.channels * shape.of.height * shape.of.width;
  const uint8_t* bytes = (const uint8_t*)rows.values + offset;
  const float* floats = (const float*)rows.values + offset;
  if (window)
    rows.kind == BYTES ? read_window(shape.of, bytes, window, line, to) : read_window(shape.of, floats, window, line, to);
  else
    rows.kind == BYTES ? read_picture(shape.of, bytes, line, to) : read_picture(shape.of, floats, line, to);
}

template <class Shape>
struct Pictures {
  static constexpr int BLOCK = REGISTERS == 32 ? 6 : 3, SECOND_BLOCK = REGISTERS == 32 ? 4 : 2;
  Shape shape;
  const Rows& source;
  Convolution<FIRST, BLOCK> first;
  Convolution<SECOND, SECOND_BLOCK> second;
  float* taps;  // the second's weights, [out][tap][GRADIENT_PIXEL]
  // By picture of a chunk, for the way back: itself, what the first pool kept, and where.
  float *pictures, *middles;
  int32_t *first_where, *second_where;
  ptrdiff_t picture, middle, first_line, second_line;  // numbers for one of them
  // Of LANES pictures side by side.
  float *lanes, *middle_lanes, *last_lanes, *middle_errors, *line_of_pixels;
  int32_t *first_lanes_where, *second_lanes_where;
  Active on;

  Pictures(const Sizes& s, const Rows& r) : shape(s), source(r) {}

  ptrdiff_t features() const { return shape.of.rows * shape.of.columns * SECOND; }

  void prepare(Memory& memory, ptrdiff_t rows) {
    const Sizes& s = shape.of;
    const ptrdiff_t groups = padded(rows);
    first.prepare(memory, s.channels);
    second.prepare(memory, FIRST);
    taps = memory.take<float>(SECOND * TAPS * GRADIENT_PIXEL);
    // A little apart: at a distance of 4 KB they would push each other out of the cache.
    picture = padded(s.pixels() * s.channels) + LANES, middle = padded(s.middle_pixels() * FIRST);
    first_line = padded(s.middle_rows * s.middle_columns * FIRST), second_line = padded(features());
    pictures = memory.take<float>(groups * picture);
    middles = memory.take<float>(groups * middle);
    first_where = memory.take<int32_t>(groups * first_line);
    second_where = memory.take<int32_t>(groups * second_line);
    lanes = memory.take<float>(picture * LANES);
    middle_lanes = memory.take<float>(middle * LANES);
    last_lanes = memory.take<float>(second_line * LANES);
    first_lanes_where = memory.take<int32_t>(first_line * LANES);
    second_lanes_where = memory.take<int32_t>(second_line * LANES);
    middle_errors = memory.take<float>(s.middle_pixels() * GRADIENT_PIXEL);
    line_of_pixels = memory.take<float>(s.channels * s.width);
    on.pixels = memory.take<int32_t>(s.middle_rows * s.middle_columns + 1);
    on.errors = memory.take<float>(s.middle_rows * s.middle_columns + 1);
  }

  void derive() {
    first.derive();
    second.derive();
    derive_taps();
  }

  void derive_taps() {
    for (int o = 0; o < SECOND; o++)
      for (int tap = 0; tap < TAPS; tap++)
        for (int c = 0; c < FIRST; c++)
          taps[(o * TAPS + tap) * GRADIENT_PIXEL + c] = second.weights.weights[(o * TAPS + tap) * FIRST + c];
  }

  // Rows lie all over memory: ask for the next ones while these are calculated with.
  void await(const int64_t* order, ptrdiff_t begin, ptrdiff_t rows) const {
    const ptrdiff_t size = shape.of.channels * shape.of.height * shape.of.width * (source.kind == BYTES ? 1 : 4);
    for (ptrdiff_t i = begin; i < begin + LANES && i < rows; i++)
      for (ptrdiff_t at = 0; at < size; at += 64) __builtin_prefetch((const char*)source.values + order[i] * size + at);
  }

  // The features of some pictures, [row][pixel][channel], lines of `line` numbers.
  void forward(const int64_t* order, const int8_t* windows, ptrdiff_t rows, bool train, float* features, ptrdiff_t line) {
    const Sizes& s = shape.of;
    for (ptrdiff_t group = 0; group < rows; group += LANES) {
      for (ptrdiff_t i = group; i < group + LANES && i < rows; i++)
        read(shape, source, order[i], windows ? windows + 3 * i : nullptr, line_of_pixels, pictures + i * picture);
      await(order, group + LANES, rows);
      transpose(pictures + group * picture, picture, lanes, LANES, LANES, picture - LANES);
      float* inner = middle_lanes + (s.padding * s.middle_width + s.padding) * FIRST * LANES;
      convolve<FIRST, BLOCK>(lanes, s.channels, s.padded_width, first.by_block, first.bias.weights, s.middle_rows,
                             s.middle_columns, inner, s.middle_width, first_lanes_where);
      convolve<SECOND, SECOND_BLOCK>(middle_lanes, FIRST, s.middle_width, second.by_block, second.bias.weights, s.rows,
                                     s.columns, last_lanes, s.columns, second_lanes_where);
      transpose(last_lanes, LANES, features + group * line, line, second_line, LANES);
      if (!train) continue;
      transpose(middle_lanes, LANES, middles + group * middle, middle, middle, LANES);
      transpose(first_lanes_where, LANES, first_where + group * first_line, first_line, first_line, LANES);
      transpose(second_lanes_where, LANES, second_where + group * second_line, second_line, second_line, LANES);
    }
  }

  // Add up the gradients of both convolutions from the errors of the features.
  void backward(ptrdiff_t rows, const float* errors, ptrdiff_t line) {
    for (ptrdiff_t i = 0; i < rows; i++) {
      backward_second(i, errors + i * line);
      backward_first(i);
    }
  }

  void backward_second(ptrdiff_t i, const float* errors) {
    const Sizes& s = shape.of;
    const int32_t* where = second_where + i * second_line;
    memset(middle_errors, 0, s.middle_pixels() * GRADIENT_PIXEL * sizeof(float));
    for (int o = 0; o < SECOND; o++) {
      on.count = 0;
      for (ptrdiff_t at = o; at < s.rows * s.columns * SECOND; at += SECOND) on.add(where[at], errors[at]);
      add_patches(middles + i * middle, FIRST, s.middle_width, on, second.gradient_of(o));
      second.bias_gradient[o] += sum_of(on);
      spread(on, taps + o * TAPS * GRADIENT_PIXEL, s.middle_width, middle_errors);
    }
  }

  void backward_first(ptrdiff_t i) {
    const Sizes& s = shape.of;
    const int32_t* where = first_where + i * first_line;
    for (int o = 0; o < FIRST; o++) {
      on.count = 0;
      for (ptrdiff_t y = 0; y < s.middle_rows; y++) {
        const float* errors = middle_errors + ((y + s.padding) * s.middle_width + s.padding) * GRADIENT_PIXEL + o;
        const int32_t* line = where + y * s.middle_columns * FIRST + o;
        for (ptrdiff_t x = 0; x < s.middle_columns; x++) on.add(line[x * FIRST], errors[x * GRADIENT_PIXEL]);
      }
      add_patches(pictures + i * picture, s.channels, s.padded_width, on, first.gradient_of(o));
      first.bias_gradient[o] += sum_of(on);
    }
  }

  void step(const Rule& rule) {
    first.step(rule);
    second.step(rule);
    derive_taps();
  }
};

// --- a whole network ----------------------------------------------------------------------------------------------------

constexpr ptrdiff_t CHUNK = 64;  // rows that go through the network together: what is kept of them stays in the cache
constexpr int MOST_LAYERS = 64;

struct NoPictures {
  explicit NoPictures(const Sizes&, const Rows&) {}
};

template <class Front>
struct Model {
  static constexpr bool HAS_PICTURES = !__is_same(Front, NoPictures);
  const Network& network;
  const Rows& rows;
  Front front;
  Memory memory;
  Layer layers[MOST_LAYERS];
  SparseLayer sparse = {};
  ptrdiff_t chunk;    // rows at a time
  float* inputs;      // of the first dense layer
  float* in_errors;   // of the same, where there are convolutions before it
  ptrdiff_t in_line;

  Model(const Network& n, const Rows& r)
      : network(n), rows(r), front(sizes(n.channels, n.height, n.width, n.padding), r) {}

  bool is_sparse() const { return rows.kind == SPARSE; }
  ptrdiff_t classes() const { return network.widths[network.layers]; }
  Layer& last() { return layers[network.layers - 1]; }

  // Numbers of a model in this file's order, and how many come before each part; weights first.
  ptrdiff_t lay_out(Block whole) {
    ptrdiff_t offset = 0;
    auto part = [&](ptrdiff_t count) {
      const ptrdiff_t begin = offset;
      offset += padded(count);
      return whole.weights ? whole.at(begin) : Block{};
    };
    if constexpr (HAS_PICTURES) {
      front.first.weights = part(FIRST * TAPS * network.channels), front.first.bias = part(FIRST);
      front.second.weights = part(SECOND * TAPS * FIRST), front.second.bias = part(SECOND);
    }
    for (int i = 0; i < network.layers; i++) {
      Layer& layer = layers[i];
      layer.in = network.widths[i], layer.out = network.widths[i + 1], layer.line = padded(layer.out);
      layer.weights = part(padded(layer.in) * layer.line);
      layer.bias = part(layer.line);
    }
    return offset;
  }

  // Everything that is needed for so many rows at a time; false if memory does not suffice.
  bool prepare(ptrdiff_t largest, bool train) {
    chunk = is_sparse() || largest < CHUNK ? largest : CHUNK;  // a sparse layer's weights move with each row
    if constexpr (HAS_PICTURES) front.prepare(memory, chunk);
    in_line = padded(network.widths[0]);
    if (!is_sparse()) inputs = memory.take<float>(padded(chunk) * in_line);
    if (train && HAS_PICTURES) in_errors = memory.take<float>(chunk * in_line);
    for (int i = 0; i < network.layers; i++) {
      Layer& layer = layers[i];
      layer.values = memory.take<float>(chunk * layer.line);
      layer.errors = memory.take<float>(chunk * layer.line);
      if (train && (i > 0 || HAS_PICTURES)) layer.turned = memory.take<float>(padded(layer.in) * layer.line);
    }
    if (memory.exhausted) return false;
    if constexpr (HAS_PICTURES) front.derive();
    return true;
  }

  // Between PyTorch's order of parameters and this file's; `into` decides which way.
  void copy(float* flat, float* own, bool into) {
    auto one = [into](float& theirs, float& ours) { into ? void(ours = theirs) : void(theirs = ours); };
    const auto at = [&](const Block& part) { return own + (part.weights - base); };
    if constexpr (HAS_PICTURES) {
      copy_convolution(flat, at(front.first.weights), at(front.first.bias), FIRST, network.channels, one);
      copy_convolution(flat, at(front.second.weights), at(front.second.bias), SECOND, FIRST, one);
    }
    for (int i = 0; i < network.layers; i++) {
      Layer& layer = layers[i];
      copy_dense(flat, at(layer.weights), layer, HAS_PICTURES && i == 0, into);
      flat += layer.in * layer.out;
      memcpy(into ? at(layer.bias) : flat, into ? flat : at(layer.bias), layer.out * sizeof(float));
      flat += layer.out;
    }
  }

  template <class One>
  static void copy_convolution(float*& flat, float* weights, float* bias, ptrdiff_t out, ptrdiff_t in, const One& one) {
    for (ptrdiff_t o = 0; o < out; o++)
      for (ptrdiff_t c = 0; c < in; c++)
        for (ptrdiff_t tap = 0; tap < TAPS; tap++) one(*flat++, weights[(o * TAPS + tap) * in + c]);
    for (ptrdiff_t o = 0; o < out; o++) one(*flat++, bias[o]);
  }

  static void copy_square(float* flat, ptrdiff_t in, float* own, ptrdiff_t line, bool into) {
    Vec square[LANES];
    for (int i = 0; i < LANES; i++) square[i] = into ? load(flat + i * in) : load(own + i * line);
    transpose_square(square);
    for (int i = 0; i < LANES; i++) into ? store(own + i * line, square[i]) : store(flat + i * in, square[i]);
  }

  // flat: [out][in]; own: [in][line]. After convolutions PyTorch's inputs are [channel][pixel], and ours [pixel][channel].
  void copy_dense(float* flat, float* own, const Layer& layer, bool pictures, bool into) {
    const ptrdiff_t pixels = pictures ? layer.in / SECOND : 1;
    float square[LANES * LANES] = {};
    for (ptrdiff_t i = 0; i < layer.in; i += LANES) {
      const ptrdiff_t ins = layer.in - i < LANES ? layer.in - i : LANES;
      float* lines[LANES];  // of these inputs
      for (ptrdiff_t r = 0; r < ins; r++)
        lines[r] = own + (pictures ? (i + r) % pixels * SECOND + (i + r) / pixels : i + r) * layer.line;
      for (ptrdiff_t o = 0; o < layer.out; o += LANES) {
        const ptrdiff_t outs = layer.out - o < LANES ? layer.out - o : LANES;
        float* theirs = flat + o * layer.in + i;
        if (!pictures && ins == LANES && outs == LANES) {
          copy_square(theirs, layer.in, lines[0] + o, layer.line, into);
        } else if (into) {
          for (ptrdiff_t r = 0; r < outs; r++) memcpy(square + r * LANES, theirs + r * layer.in, ins * sizeof(float));
          for (ptrdiff_t r = outs; r < LANES; r++) memset(square + r * LANES, 0, sizeof(Vec));
          transpose(square, LANES, square, LANES, LANES, LANES);
          for (ptrdiff_t r = 0; r < ins; r++) memcpy(lines[r] + o, square + r * LANES, sizeof(Vec));
        } else {
          for (ptrdiff_t r = 0; r < ins; r++) memcpy(square + r * LANES, lines[r] + o, sizeof(Vec));
          transpose(square, LANES, square, LANES, LANES, LANES);
          for (ptrdiff_t r = 0; r < outs; r++) memcpy(theirs + r * layer.in, square + r * LANES, ins * sizeof(float));
        }
      }
    }
  }

  // Reorder a vector; return how many numbers it has in this file's order.
  ptrdiff_t reorder(float* flat, float* own, bool into) {
    const ptrdiff_t count = lay_out({});
    base = own;
    lay_out({own, own});
    if (own) copy(flat, own, into);
    return count;
  }

  float* base = nullptr;  // of the weights in this file's order
  ptrdiff_t numbers = 0;
  Block whole;

  float* taken(const float* vector) {
    if (network.reordered) return const_cast<float*>(vector);
    float* own = memory.take<float>(numbers);
    if (own && vector) copy(const_cast<float*>(vector), own, true);
    return own;
  }

  // Velocities that begin at 0. Those of a sparse layer, which are many, are set when they are needed.
  float* at_rest() {
    const ptrdiff_t later = is_sparse() ? layers[0].bias.weights - base : 0;
    float* own = memory.take<float>(numbers, false);
    if (own) memset(own + later, 0, (numbers - later) * sizeof(float));
    return own;
  }

  // Take in a model, and for training what the rule says of it.
  bool take_in(const float* params, const float* velocity, const Rule* rule) {
    numbers = lay_out({});
    base = network.reordered ? const_cast<float*>(params) : memory.take<float>(numbers);
    if (!base) return false;
    lay_out({base, base});
    if (!network.reordered) copy(const_cast<float*>(params), base, true);
    whole = {base, base, nullptr, nullptr, nullptr};
    if (rule) {
      whole.velocity = velocity ? taken(velocity) : at_rest();
      if (rule->anchor && rule->strength != 0) whole.anchor = taken(rule->anchor);
      if (rule->linear) whole.linear = taken(rule->linear);
      if (rule->drift) whole.drift = taken(rule->drift);
    }
    if (memory.exhausted) return false;
    lay_out(whole);
    return true;
  }

  bool prepare_sparse(const Rule& rule, const Walk& walk, bool from_rest) {
    Layer& layer = layers[0];
    const int64_t most = most_entries(walk), steps = walk.steps;
    if (most > INT32_MAX - 1) return false;
    sparse.columns = layer.in, sparse.line = layer.line, sparse.block = layer.weights, sparse.from_rest = from_rest;
    sparse.done = memory.take<int32_t>(layer.in);
    Idle* idle = memory.take<Idle>(steps + 1);
    const ptrdiff_t count = layer.in * layer.line;
    float* constant = layer.weights.anchor || layer.weights.linear ? memory.take<float>(count, false) : nullptr;
    if (!sparse.batch.prepare(memory, most, layer.in)) return false;
    fill_idle(idle, steps, rule);
    for (ptrdiff_t i = 0; constant && i < count; i++)
      constant[i] = (layer.weights.linear ? layer.weights.linear[i] : 0) -
                    (layer.weights.anchor ? rule.strength * layer.weights.anchor[i] : 0);
    sparse.constant = constant;
    sparse.idle = idle;
    return true;
  }

  // The entries of the longest batch.
  int64_t most_entries(const Walk& walk) const {
    int64_t most = 0;
    const int64_t* order = walk.order;
    for (int64_t t = 0; t < walk.steps; order += walk.sizes[t++]) {
      int64_t entries = 0;
      for (int64_t r = 0; r < walk.sizes[t]; r++) entries += rows.begins[order[r] + 1] - rows.begins[order[r]];
      most = entries > most ? entries : most;
    }
    return most;
  }

  void gather(const int64_t* order, ptrdiff_t count) {
    const ptrdiff_t width = network.widths[0];
    const ptrdiff_t size = width * (rows.kind == FLOATS ? 4 : 1);
    for (ptrdiff_t r = 0; r < count; r++) {
      for (ptrdiff_t at = 0; r + 3 < count && at < size; at += 64)  // rows lie all over memory: ask for them in time
        __builtin_prefetch((const char*)rows.values + order[r + 3] * size + at);
      float* to = inputs + r * in_line;
      if (rows.kind == FLOATS)
        copy_numbers((const float*)rows.values + order[r] * width, width, to);
      else
        copy_numbers((const uint8_t*)rows.values + order[r] * width, width, to);
    }
  }

  void forward_chunk(const int64_t* order, const int8_t* windows, ptrdiff_t count, bool train, int32_t step) {
    if constexpr (HAS_PICTURES)
      front.forward(order, windows, count, train, inputs, in_line);
    else if (!is_sparse())
      gather(order, count);
    else if (train)
      sparse.begin(rows, order, count, step);
    const float* x = inputs;
    ptrdiff_t line = in_line;
    for (int i = 0; i < network.layers; i++) {
      Layer& layer = layers[i];
      const bool final = i + 1 == network.layers;
      if (i == 0 && is_sparse())
        forward_sparse(sparse, layer, rows, order, count, final);
      else
        forward(layer, count, x, line, final);
      x = layer.values, line = layer.line;
    }
  }

  void backward_chunk(const int64_t* order, ptrdiff_t count, const Rule& rule, Place place, int32_t step) {
    for (int i = network.layers - 1; i >= 0; i--) {
      Layer& layer = layers[i];
      const float* x = i ? layers[i - 1].values : inputs;
      const ptrdiff_t line = i ? layers[i - 1].line : in_line;
      float* errors = i ? layers[i - 1].errors : HAS_PICTURES ? in_errors : nullptr;
      if (errors) backward(layer, count, x, line, errors);  // before the weights move
      if (i == 0 && is_sparse()) {
        descend_sparse(sparse, layer.errors, step, rule);
        descend_bias(layer, count, rule, place);
      } else {
        descend_layer(layer, count, x, line, rule, place);
      }
    }
    if constexpr (HAS_PICTURES) {
      front.backward(count, in_errors, in_line);
      if (place.last) front.step(rule);
    }
  }

  // One batch: its mean loss.
  double learn(const int64_t* order, const int8_t* windows, ptrdiff_t size, const Rule& rule, int32_t step) {
    double loss = 0;
    const float share = 1.0f / float(size);
    for (ptrdiff_t begin = 0; begin < size; begin += chunk) {
      const ptrdiff_t count = size - begin < chunk ? size - begin : chunk;
      forward_chunk(order + begin, windows ? windows + 3 * begin : nullptr, count, true, step);
      for (ptrdiff_t r = 0; r < count; r++)
        loss += cross_entropy(last().values + r * last().line, classes(), rows.labels[order[begin + r]], share,
                              last().errors + r * last().line);
      backward_chunk(order + begin, count, rule, {begin == 0, begin + count == size}, step);
    }
    return loss / double(size);
  }

  // All steps of a walk: the sum of their mean losses.
  double follow(const Walk& walk, const Rule& rule) {
    const int64_t* order = walk.order;
    const int8_t* windows = walk.windows;
    double loss = 0;
    for (int64_t t = 0; t < walk.steps; t++) {
      loss += learn(order, windows, walk.sizes[t], rule, int32_t(t));
      order += walk.sizes[t];
      if (windows) windows += 3 * walk.sizes[t];
    }
    return loss;
  }

  Status train(const Walk& walk, const Rule& rule, float* params, float* velocity, double* loss) {
    int64_t largest = 0;
    for (int64_t t = 0; t < walk.steps; t++) largest = walk.sizes[t] > largest ? walk.sizes[t] : largest;
    if (!take_in(params, velocity, &rule) || !prepare(largest, true)) return NO_MEMORY;
    if (is_sparse() && !prepare_sparse(rule, walk, !velocity)) return NO_MEMORY;
    *loss = follow(walk, rule);
    if (is_sparse())
      for (ptrdiff_t c = 0; c < sparse.columns; c++) sparse.bring<true>(int32_t(c), int32_t(walk.steps));
    if (network.reordered) return FINE;
    copy(params, base, false);
    if (velocity) copy(velocity, whole.velocity, false);
    return FINE;
  }

  Status score(const int64_t* order, int64_t count, const float* params, int64_t* hits, double* loss) {
    if (!take_in(params, nullptr, nullptr) || !prepare(count < CHUNK ? count : CHUNK, false)) return NO_MEMORY;
    if (is_sparse() && !prepare_sparse({}, {}, false)) return NO_MEMORY;
    *loss = 0, memset(hits, 0, size_t(classes()) * sizeof *hits);
    for (int64_t begin = 0; begin < count; begin += chunk) {
      const ptrdiff_t some = count - begin < chunk ? count - begin : chunk;
      forward_chunk(order + begin, nullptr, some, false, 0);
      for (ptrdiff_t r = 0; r < some; r++) {
        const float* logits = last().values + r * last().line;
        const int64_t label = rows.labels[order[begin + r]];
        hits[label] += likeliest(logits, classes()) == label;
        *loss += cross_entropy(logits, classes(), label, 1, last().errors + r * last().line);
      }
    }
    return FINE;
  }
};

// --- what a caller may get wrong ----------------------------------------------------------------------------------------

Status check_network(const Network& n, const Rows& rows) {
  constexpr int32_t LARGEST = 1 << 24;
  if (n.layers < 1 || n.layers > MOST_LAYERS || rows.kind < BYTES || rows.kind > SPARSE) return BAD_SHAPE;
  for (int i = 0; i <= n.layers; i++)
    if (n.widths[i] < 1 || n.widths[i] > LARGEST) return BAD_SHAPE;
  if (n.channels == 0) return FINE;
  if (n.reordered) return BAD_SHAPE;  // the convolutions read beyond the end of what is taken in
  if (n.channels < 0 || n.channels > 1024 || n.padding < 0 || n.padding > 2 || rows.kind == SPARSE) return BAD_SHAPE;
  if (n.height < 1 || n.width < 1 || n.height > 4096 || n.width > 4096) return BAD_SHAPE;
  const Sizes s = sizes(n.channels, n.height, n.width, n.padding);
  return s.rows < 1 || s.columns < 1 || n.widths[0] != s.rows * s.columns * SECOND ? BAD_SHAPE : FINE;
}

// The largest of some numbers, 0 if there are none; negative ones count as very large.
uint32_t largest(const int32_t* numbers, ptrdiff_t count) {
  typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
  Words most = {};
  ptrdiff_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    const Words some = load<Words>(numbers + i);
    most = some > most ? some : most;
  }
  uint32_t found = 0;
  for (int lane = 0; lane < LANES; lane++) found = most[lane] > found ? most[lane] : found;
  for (; i < count; i++) found = uint32_t(numbers[i]) > found ? uint32_t(numbers[i]) : found;
  return found;
}

Status check_rows(const Network& n, const Rows& rows, const int64_t* order, int64_t count) {
  const int32_t classes = n.widths[n.layers];
  for (int64_t i = 0; i < count; i++) {
    const int64_t row = order[i];
    if (row < 0 || row >= rows.count) return BAD_ROW;
    if (rows.labels[row] < 0 || rows.labels[row] >= classes) return BAD_LABEL;
    if (rows.kind != SPARSE) continue;
    if (rows.begins[row] < 0 || rows.begins[row] > rows.begins[row + 1] || rows.begins[row + 1] > rows.entries)
      return BAD_ROW;
    if (largest(rows.columns + rows.begins[row], rows.begins[row + 1] - rows.begins[row]) >= uint32_t(n.widths[0]))
      return BAD_COLUMN;
  }
  return FINE;
}

Status check_walk(const Walk& walk, int64_t* visits) {
  *visits = 0;
  if (walk.steps < 0 || walk.steps > INT32_MAX - 1) return BAD_BATCH;
  for (int64_t t = 0; t < walk.steps; t++) {
    if (walk.sizes[t] < 1 || walk.sizes[t] > (int64_t(1) << 40)) return BAD_BATCH;
    *visits += walk.sizes[t];
  }
  for (int64_t i = 0; walk.windows && i < 3 * *visits; i++)
    if (walk.windows[i] < -64 || walk.windows[i] > 64) return BAD_BATCH;
  return FINE;
}

bool is(const Network& n, int32_t channels, int32_t height, int32_t width, int32_t padding) {
  return n.channels == channels && n.height == height && n.width == width && n.padding == padding;
}

// Call something with a model of the right kind: the papers' shapes are known to the compiler, others are not.
template <class Use>
Status with_model(const Network& network, const Rows& rows, const Use& use) {
  const FlushDenormals here;
  if (network.channels == 0) return use(Model<NoPictures>(network, rows));
  if (is(network, 3, 32, 32, 0)) return use(Model<Pictures<Known<3, 32, 32, 0>>>(network, rows));
  if (is(network, 1, 28, 28, 0)) return use(Model<Pictures<Known<1, 28, 28, 0>>>(network, rows));
  if (is(network, 1, 8, 8, 2)) return use(Model<Pictures<Known<1, 8, 8, 2>>>(network, rows));
  return use(Model<Pictures<Unknown>>(network, rows));
}

}  // namespace

#include "batch.h"

#define PUBLIC extern "C" __attribute__((visibility("default")))

PUBLIC int32_t silobench_lanes() { return LANES; }

// Bring a vector of parameters from PyTorch's order (`flat`) into this file's, or back. Numbers that pad a line are not
// written. Returns how many numbers `own` has; only this if it is null. 0 for a network without this order.
PUBLIC int64_t silobench_reorder(const Network* network, float* flat, float* own, int32_t into) {
  Rows none = {};
  if (check_network(*network, none) != FINE || network->channels != 0) return 0;
  return Model<NoPictures>(*network, none).reorder(flat, own, into != 0);
}

// Train `params` along a walk; `velocity` (null for one that begins and ends with the call) is brought up too. `loss` is the
// sum of the steps' mean losses.
PUBLIC int32_t silobench_train(const Network* network, const Rows* rows, const Walk* walk, const Rule* rule, float* params,
                               float* velocity, double* loss) {
  int64_t visits = 0;
  Status status = check_network(*network, *rows);
  if (status == FINE) status = check_walk(*walk, &visits);
  if (status == FINE) status = check_rows(*network, *rows, walk->order, visits);
  if (status != FINE) return status;
  return with_model(*network, *rows,
                    [&](auto&& model) { return model.train(*walk, *rule, params, velocity, loss); });
}

// How many rows of each class a model gets right, among some, and the sum of its losses on them.
PUBLIC int32_t silobench_score(const Network* network, const Rows* rows, const int64_t* order, int64_t count,
                               const float* params, int64_t* hits, double* loss) {
  Status status = check_network(*network, *rows);
  if (status == FINE && count < 0) status = BAD_BATCH;
  if (status == FINE) status = check_rows(*network, *rows, order, count);
  if (status != FINE) return status;
  return with_model(*network, *rows,
                    [&](auto&& model) { return model.score(order, count, params, hits, loss); });
}

// Train parties one by one from the same model, on several threads, and add their weighted changes to `sum` in their order;
// the first party replaces it if `is_first`.
PUBLIC int32_t silobench_train_batch(const Network* network, const Rows* rows, const Passes* passes, const Rule* rule,
                                     const float* start, Party* parties, int64_t count, int64_t threads, int32_t is_first,
                                     float* sum) {
  Status status = check_network(*network, *rows);
  if (status == FINE) status = check_batch(*network, *rows, *passes, parties, count);
  if (status != FINE) return status;
  return Batch(*network, *rows, *passes, *rule, start, parties, count).train(threads, is_first, sum);
}

// Some rows in a new order for each pass: what `silobench_train_batch` visits.
PUBLIC void silobench_order(const uint32_t* key, int64_t words, const int64_t* rows, int64_t count, int64_t passes,
                            int64_t* order) {
  draw_order(key, words, rows, count, passes, order);
}
