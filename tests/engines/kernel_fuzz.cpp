// Random calls of the native step, right and wrong ones, on arrays of exactly the size that was promised: to be compiled
// with the sanitizers, which end the program at the first touch beyond. Usage: kernel_fuzz CALLS SEED
#include "../../src/silobench/engines/kernel/step.cpp"

#include <stdio.h>

#include <initializer_list>

namespace {

uint64_t state;

uint64_t draw() {  // xorshift
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}
int64_t between(int64_t low, int64_t high) { return low + int64_t(draw() % uint64_t(high - low + 1)); }
bool once_in(int n) { return draw() % n == 0; }

float number() {
  if (once_in(200)) return NAN;
  if (once_in(200)) return once_in(2) ? INFINITY : -INFINITY;
  if (once_in(100)) return 1e-40f;
  if (once_in(10)) return 0;
  return float(between(-1000, 1000)) / 500;
}

template <class T>
struct Array {  // on the heap, so that its ends are guarded
  T* at;
  explicit Array(int64_t count) : at((T*)malloc(count * sizeof(T))) {}
  Array(const Array&) = delete;
  ~Array() { free(at); }
};

void fill(float* at, int64_t count) {
  const bool plain = !once_in(20);
  for (int64_t i = 0; i < count; i++) at[i] = plain ? float(between(-100, 100)) / 300 : number();
}

// The rows of a walk divided among some parties, the last ones of them perhaps empty: to be refused.
int call_batch(const Network& network, const Rows& rows, const Rule& rule, const float* start, float* sum, const int64_t* order,
               int64_t visits) {
  const int64_t count = between(1, 4);
  Array<Party> parties(count);
  Array<int64_t> members(visits);
  memcpy(members.at, order, size_t(visits) * sizeof *order);
  for (int64_t i = 0, at = 0; i < count; i++) {
    const int64_t size = i + 1 < count ? between(1, visits / count + 1) : visits - at;
    parties.at[i] = {members.at + at, at + size <= visits ? size : visits - at, between(0, 9), 0, 0, 0, 0};
    at += parties.at[i].count;
  }
  const uint32_t key[3] = {uint32_t(draw()), uint32_t(draw()), uint32_t(draw())};
  Passes passes = {key, between(0, 3), between(1, 3), between(1, 90)};
  if (once_in(40)) passes.epochs = between(-1, 0);
  if (once_in(40)) passes.batch = between(-1, 0);
  if (once_in(40)) parties.at[between(0, count - 1)].number = once_in(2) ? -1 : int64_t(1) << 32;
  return silobench_train_batch(&network, &rows, &passes, &rule, start, parties.at, count, between(-1, 3), once_in(2), sum);
}

int call() {
  Network network = {};
  int32_t widths[6];
  network.layers = int32_t(between(1, 5)), network.widths = widths;
  for (int i = 0; i <= network.layers; i++) widths[i] = int32_t(between(1, once_in(4) ? 40 : 9));
  Rows rows = {};
  rows.kind = int32_t(between(0, 2)), rows.count = between(1, 8);
  int64_t row = widths[0], parameters = 0;
  if (once_in(3)) {
    const int32_t known[3][4] = {{3, 32, 32, 0}, {1, 28, 28, 0}, {1, 8, 8, 2}};
    const int32_t* shape = known[once_in(4) ? between(0, 1) : 2];
    const bool any = once_in(2);
    network.channels = any ? int32_t(between(1, 3)) : shape[0];
    network.padding = any ? int32_t(between(0, 1) * 2) : shape[3];
    network.height = any ? int32_t(between(4, 24)) : shape[1], network.width = any ? int32_t(between(4, 24)) : shape[2];
    const Sizes s = sizes(network.channels, network.height, network.width, network.padding);
    widths[0] = int32_t(s.rows * s.columns * SECOND);  // may be 0 or less: to be refused
    row = network.channels * network.height * network.width;
    parameters = FIRST * (TAPS * network.channels + 1) + SECOND * (TAPS * FIRST + 1);
  }
  for (int i = 0; i < network.layers; i++) parameters += int64_t(widths[i] > 0 ? widths[i] + 1 : 1) * widths[i + 1];
  if (once_in(40)) widths[between(0, network.layers)] = int32_t(between(-1, 0));
  if (once_in(40)) rows.kind = int32_t(between(-1, 4));

  Array<int64_t> labels(rows.count);
  for (int64_t i = 0; i < rows.count; i++) labels.at[i] = between(0, widths[network.layers] > 0 ? widths[network.layers] - 1 : 0);
  if (once_in(20)) labels.at[between(0, rows.count - 1)] = between(-2, 60);
  rows.labels = labels.at;
  Array<uint8_t> bytes(rows.count * row);
  Array<float> floats(rows.count * row);
  Array<int32_t> columns(rows.count * 5), begins(rows.count + 1);
  for (int64_t i = 0; i < rows.count * row; i++) bytes.at[i] = uint8_t(draw());
  fill(floats.at, rows.count * row);
  begins.at[0] = 0;
  for (int64_t i = 0; i < rows.count; i++) begins.at[i + 1] = begins.at[i] + int32_t(between(0, 5));
  rows.entries = begins.at[rows.count];
  Array<float> entries(rows.entries);
  fill(entries.at, rows.entries);
  for (int64_t i = 0; i < rows.entries; i++) columns.at[i] = int32_t(between(0, widths[0] > 0 ? widths[0] - 1 : 0));
  if (once_in(20) && rows.entries) columns.at[between(0, rows.entries - 1)] = int32_t(between(-3, 90));
  if (once_in(20)) begins.at[between(0, rows.count)] = int32_t(between(-3, 90));
  rows.values = rows.kind == BYTES ? (const void*)bytes.at : rows.kind == FLOATS ? floats.at : entries.at;
  rows.columns = columns.at, rows.begins = begins.at;

  Walk walk = {};
  walk.steps = once_in(50) ? 0 : between(1, 4);
  Array<int64_t> batches(walk.steps);
  int64_t visits = 0;
  for (int64_t t = 0; t < walk.steps; t++) visits += batches.at[t] = once_in(6) ? between(60, 140) : between(1, 20);
  Array<int64_t> order(visits);
  for (int64_t i = 0; i < visits; i++) order.at[i] = between(0, rows.count - 1);
  if (once_in(20) && visits) order.at[between(0, visits - 1)] = between(-3, 20);
  Array<int8_t> windows(3 * visits);
  for (int64_t i = 0; i < 3 * visits; i++) windows.at[i] = int8_t(i % 3 == 2 ? between(0, 1) : between(-4, 4));
  if (once_in(20) && visits) windows.at[between(0, 3 * visits - 1)] = int8_t(draw());
  if (once_in(60) && walk.steps) batches.at[0] = between(-1, 0);
  walk.order = order.at, walk.sizes = batches.at, walk.windows = network.channels && once_in(2) ? windows.at : nullptr;

  Array<float> params(parameters), velocity(parameters), anchor(parameters), linear(parameters), drift(parameters);
  for (float* vector : {params.at, velocity.at, anchor.at, linear.at, drift.at}) fill(vector, parameters);
  Rule rule = {number(), 0.9f, once_in(2) ? 0.0f : 0.1f, once_in(2) ? 0.0f : 0.3f, nullptr, nullptr, nullptr};
  if (once_in(2)) rule.anchor = anchor.at;
  if (once_in(2)) rule.linear = linear.at;
  if (once_in(2)) rule.drift = drift.at;
  double loss = 0;
  if (once_in(3)) return call_batch(network, rows, rule, params.at, velocity.at, order.at, visits);
  Array<int64_t> hits(widths[network.layers] > 0 ? widths[network.layers] : 0);
  if (once_in(3)) return silobench_score(&network, &rows, order.at, visits, params.at, hits.at, &loss);
  return silobench_train(&network, &rows, &walk, &rule, params.at, once_in(2) ? velocity.at : nullptr, &loss);
}

}  // namespace

int main(int, char** given) {
  const long calls = atol(given[1]);
  long fine = 0;
  state = uint64_t(atol(given[2])) * 2654435769u + 1;
  for (long i = 0; i < calls; i++) fine += call() == 0;
  printf("%ld of %ld\n", fine, calls);
}
