// Random orders with the bits of NumPy's `Generator(PCG64(SeedSequence(key))).permutation(rows)`, drawn pass after pass by one
// generator. Python compares them with NumPy before they are used, because another NumPy may draw others.
#pragma once

#include <stdint.h>
#include <string.h>

namespace {

#if defined(__SIZEOF_INT128__)
typedef unsigned __int128 Wide;
#else
typedef uint64_t Wide;  // too narrow: the orders are wrong, so the comparison with NumPy refuses them
#endif

// SeedSequence: words of any number become a pool of four, and the pool becomes the words of a seed.
class Seeds {
  static constexpr int POOL = 4;
  uint32_t pool[POOL];
  uint32_t factor = 0x43b0d7e5;

  uint32_t hashed(uint32_t value) {
    value ^= factor;
    factor *= 0x931e8875;
    value *= factor;
    return value ^ value >> 16;
  }

  static uint32_t mixed(uint32_t a, uint32_t b) {
    const uint32_t sum = 0xca01f9dd * a - 0x4973f715 * b;
    return sum ^ sum >> 16;
  }

 public:
  Seeds(const uint32_t* key, int64_t words) {
    for (int i = 0; i < POOL; i++) pool[i] = hashed(i < words ? key[i] : 0);
    for (int from = 0; from < POOL; from++)
      for (int to = 0; to < POOL; to++)
        if (from != to) pool[to] = mixed(pool[to], hashed(pool[from]));
    for (int64_t from = POOL; from < words; from++)
      for (int to = 0; to < POOL; to++) pool[to] = mixed(pool[to], hashed(key[from]));
  }

  void fill(uint64_t* seed, int count) const {
    uint32_t by = 0x8b51f9dd, halves[2];
    for (int i = 0; i < 2 * count; i++) {
      uint32_t word = pool[i % POOL] ^ by;
      by *= 0x58f38ded;
      word *= by;
      halves[i % 2] = word ^ word >> 16;
      if (i % 2) seed[i / 2] = uint64_t(halves[1]) << 32 | halves[0];
    }
  }
};

// PCG64 (XSL-RR). A draw of 64 bits serves two draws of 32 bits.
class Generator {
  Wide state = 0, increment;
  uint32_t upper = 0;
  bool has_upper = false;

  void step() {
    const Wide factor = Wide(2549297995355413924u) << (4 * sizeof(Wide)) | 4865540595714422341u;
    state = state * factor + increment;
  }

  uint64_t draw() {
    step();
    const uint64_t high = uint64_t(state >> (4 * sizeof(Wide))), low = uint64_t(state), folded = high ^ low;
    const unsigned turn = unsigned(high >> 58);
    return folded >> turn | folded << (-turn & 63);
  }

  uint32_t draw_half() {
    if (has_upper) {
      has_upper = false;
      return upper;
    }
    const uint64_t both = draw();
    has_upper = true, upper = uint32_t(both >> 32);
    return uint32_t(both);
  }

 public:
  explicit Generator(const Seeds& seeds) {
    uint64_t words[4];
    seeds.fill(words, 4);
    increment = (Wide(words[2]) << (4 * sizeof(Wide)) | words[3]) << 1 | 1;
    step();
    state += Wide(words[0]) << (4 * sizeof(Wide)) | words[1];
    step();
  }

  // One of 0 .. most, which is at least 1: the first draw whose lowest bits are among them.
  uint32_t up_to(uint32_t most) {
    const uint32_t mask = UINT32_MAX >> __builtin_clz(most);
    uint32_t number;
    do number = draw_half() & mask;
    while (number > most);
    return number;
  }

  void shuffle(int64_t* rows, int64_t count) {
    for (int64_t i = count - 1; i > 0; i--) {
      const uint32_t j = up_to(uint32_t(i));
      const int64_t row = rows[i];
      rows[i] = rows[j], rows[j] = row;
    }
  }
};

// Some rows in a new order for each pass, one pass after the other.
void draw_order(const uint32_t* key, int64_t words, const int64_t* rows, int64_t count, int64_t passes, int64_t* order) {
  Generator generator{Seeds(key, words)};
  for (int64_t pass = 0; pass < passes; pass++, order += count) {
    memcpy(order, rows, size_t(count) * sizeof *rows);
    generator.shuffle(order, count);
  }
}

}  // namespace
