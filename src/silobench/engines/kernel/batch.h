// Many small parties in one call: each is trained from the same model over random orders of its rows, and the weighted changes
// of the model are added up. A model is brought into the order of step.cpp once per thread, and the sum back once. `step.cpp`
// includes this file.
//
// Threads take one party after the other. Each party's result is stored, and one thread adds them in their order, so the bits
// depend neither on the number of threads nor on who is first.
#pragma once

#include <pthread.h>
#include <time.h>

#include "orders.h"

namespace {

// How parties visit their rows. The key of a party's random stream is `key` and then its number.
struct Passes {
  const uint32_t* key;
  int64_t words;
  int64_t epochs;
  int64_t batch;  // rows of a step, at most
};

struct Party {
  const int64_t* rows;
  int64_t count;
  int64_t number;
  // Of its training:
  int64_t status, steps;
  double loss;  // mean over its steps
  double seconds;
};

constexpr int MOST_THREADS = 256;
constexpr int64_t MOST_ROWS = int64_t(1) << 31, MOST_WORDS = 64;

Status check_batch(const Network& network, const Rows& rows, const Passes& passes, Party* parties, int64_t count) {
  if (network.channels != 0 || rows.kind == SPARSE) return BAD_SHAPE;
  if (count < 1 || passes.epochs < 1 || passes.batch < 1 || passes.words < 0 || passes.words >= MOST_WORDS) return BAD_BATCH;
  for (int64_t i = 0; i < count; i++)
    if (parties[i].count < 1 || parties[i].count > MOST_ROWS || parties[i].number < 0 || parties[i].number > UINT32_MAX ||
        passes.epochs > (int64_t(1) << 40) / parties[i].count)
      return BAD_BATCH;
  return FINE;
}

double seconds_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

class Batch {
  const Network& network;
  const Rows& rows;
  const Passes& passes;
  const Rule& rule;
  const float* start;
  Party* parties;
  const int64_t count;
  Memory memory;
  float* ends = nullptr;  // the models after training, in the order of step.cpp, `line` numbers each
  ptrdiff_t line = 0;
  int64_t next = 0;       // party that no thread has taken yet

  // One thread's model, and memory for the visits of its party.
  struct Desk {
    Model<NoPictures> model;
    int64_t *order = nullptr, *sizes = nullptr;
    float* origin = nullptr;
    bool is_ready = false;

    explicit Desk(const Batch& batch) : model(batch.network, batch.rows) {
      int64_t most = 0;
      for (int64_t i = 0; i < batch.count; i++) most = batch.parties[i].count > most ? batch.parties[i].count : most;
      const int64_t size = most < batch.passes.batch ? most : batch.passes.batch;
      if (!model.take_in(batch.start, nullptr, &batch.rule) || !model.prepare(size, true)) return;
      order = model.memory.take<int64_t>(most * batch.passes.epochs, false);
      sizes = model.memory.take<int64_t>((most + size - 1) / size * batch.passes.epochs);
      origin = model.base;
      is_ready = !model.memory.exhausted;
    }
  };

  Walk walk(const Party& party, Desk& desk) const {
    uint32_t key[MOST_WORDS];
    memcpy(key, passes.key, size_t(passes.words) * sizeof *key);
    key[passes.words] = uint32_t(party.number);
    draw_order(key, passes.words + 1, party.rows, party.count, passes.epochs, desk.order);
    int64_t steps = 0;
    for (int64_t epoch = 0; epoch < passes.epochs; epoch++)
      for (int64_t begin = 0; begin < party.count; begin += passes.batch)
        desk.sizes[steps++] = party.count - begin < passes.batch ? party.count - begin : passes.batch;
    return {desk.order, desk.sizes, steps, nullptr};
  }

  Status train(Party& party, Desk& desk, float* end) const {
    if (!desk.is_ready) return NO_MEMORY;
    const Status status = check_rows(network, rows, party.rows, party.count);
    if (status != FINE) return status;
    Model<NoPictures>& model = desk.model;
    memcpy(end, desk.origin, size_t(model.numbers) * sizeof *end);
    memset(model.whole.velocity, 0, size_t(model.numbers) * sizeof *end);
    model.whole.weights = end;
    model.lay_out(model.whole);
    const Walk visits = walk(party, desk);
    party.steps = visits.steps;
    party.loss = model.follow(visits, rule) / double(visits.steps);
    return FINE;
  }

  void work() {
    const FlushDenormals here;
    Desk desk(*this);
    for (int64_t i; (i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < count;) {
      const double began = seconds_now();
      parties[i].status = train(parties[i], desk, ends + i * line);
      parties[i].seconds = seconds_now() - began;
    }
  }

  static void* work_on(void* batch) {
    ((Batch*)batch)->work();
    return nullptr;
  }

  void work_together(int64_t threads) {
    pthread_t others[MOST_THREADS];
    int started = 0;
    while (started + 1 < threads && started < MOST_THREADS && started + 1 < count &&
           pthread_create(&others[started], nullptr, work_on, this) == 0)
      started++;
    work();
    for (int i = 0; i < started; i++) pthread_join(others[i], nullptr);
  }

  // Multiplication and addition are rounded together, as PyTorch does it; the first party's product is rounded alone.
  void add_up(const float* origin, bool is_first, float* total) const {
    for (int64_t i = 0; i < count; i++) {
      const float weight = float(parties[i].count);
      const float* end = ends + i * line;
      if (i == 0 && is_first)
        for (ptrdiff_t at = 0; at < line; at += LANES)
          store(total + at, (load(end + at) - load(origin + at)) * weight);
      else
        for (ptrdiff_t at = 0; at < line; at += LANES)
          store(total + at, load(total + at) + (load(end + at) - load(origin + at)) * weight);
    }
  }

 public:
  Batch(const Network& n, const Rows& r, const Passes& p, const Rule& u, const float* s, Party* all, int64_t c)
      : network(n), rows(r), passes(p), rule(u), start(s), parties(all), count(c) {}

  Status train(int64_t threads, bool is_first, float* sum) {
    Model<NoPictures> model(network, rows);
    const FlushDenormals here;
    if (!model.take_in(start, nullptr, nullptr)) return NO_MEMORY;
    line = model.numbers;
    float* total = model.taken(is_first ? nullptr : sum);
    ends = memory.take<float>(count * line, false);
    if (!total || !ends) return NO_MEMORY;
    work_together(threads);
    for (int64_t i = 0; i < count; i++)
      if (parties[i].status != FINE) return Status(parties[i].status);
    add_up(model.base, is_first, total);
    model.copy(sum, total, false);
    return FINE;
  }
};

}  // namespace
