// The discrete-event engine's algorithm in C++: the yardstick of the compiled Python one (benchmarks/simulator.py).
//
// Same processor sharing in virtual time, replace-top heaps, tournament trees, keyed random numbers, quantile table and
// fetching ahead as simulators/events_fast.py, for what the speed table simulates: groups, a buffer cap, the trainer, weight sync in
// flight, turns with tools. Same seed, same path: the clock it prints must equal the product's. It keeps the counters
// of a prediction (trained, tokens, staleness, idle) and, with -DCOUNTERS, the areas and stays of every station too.
//
// Arguments: engines slots group batch_groups cap turns tool_s base_s per_resident_s per_context_s mean sigma
//            trainer_base_s trainer_s_per_token sync_s seed warm_steps steps
// Prints: CPU seconds of `steps` after `warm_steps`, clock at both ends, trained rollouts, events, mean staleness.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <vector>

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kCells = 1024;
constexpr double kEdge = 16.0 / kCells;
enum Stream : uint64_t { kResponse = 2, kToolTime = 5, kSolveRate = 6, kReward = 7 };

double normal_quantile(double share) {  // Wichura's AS 241, as in simulators/streams.py
  const double q = share - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    const double a = (((((((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r +
                          45921.953931549871457) * r + 13731.693765509461125) * r + 1971.5909503065514427) * r +
                       133.14166789178437745) * r + 3.387132872796366608);
    const double b = (((((((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) * r +
                          21213.794301586595867) * r + 5394.1960214247511077) * r + 687.1870074920579083) * r +
                       42.313330701600911252) * r + 1.0);
    return q * a / b;
  }
  double r = std::sqrt(-std::log(q < 0.0 ? share : 1.0 - share)), a, b;
  if (r <= 5.0) {
    r -= 1.6;
    a = (((((((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177) * r +
             1.27045825245236838258) * r + 3.64784832476320460504) * r + 5.7694972214606914055) * r +
          4.6303378461565452959) * r + 1.42343711074968357734);
    b = (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r +
             0.14810397642748007459) * r + 0.68976733498510000455) * r + 1.6763848301838038494) * r +
          2.05319162663775882187) * r + 1.0);
  } else {
    r -= 5.0;
    a = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.0012426609473880784386) * r +
             0.026532189526576123093) * r + 0.29656057182850489123) * r + 1.7848265399172913358) * r +
          5.4637849111641143699) * r + 6.6579046435011037772);
    b = (((((((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5) * r +
             7.868691311456132591e-4) * r + 0.0148753612908506148525) * r + 0.13692988092273580531) * r +
          0.59983220655588793769) * r + 1.0);
  }
  return q < 0.0 ? -(a / b) : a / b;
}

inline uint64_t mixed(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
  return word ^ (word >> 31);
}

inline double uniform(uint64_t key, uint64_t stream, uint64_t group, uint64_t member, uint64_t turn) {
  const uint64_t word = key + stream * 0x9E3779B97F4A7C15ull + group * 0xD1B54A32D192ED03ull +
                        member * 0x8CB92BA72F3D8DD7ull + turn * 0xAEF17502108EF2D9ull;
  return (double(int64_t(mixed(word) >> 12)) + 0.5) * 2.220446049250313e-16;
}

struct Law {
  double location = 0.0, sigma = 0.0, mean = 0.0;  // sigma > 0: lognormal, else exponential
  double table[kCells + 1] = {};

  double exact(double share) const {
    return sigma > 0.0 ? std::exp(location + sigma * normal_quantile(share)) : -mean * std::log(1.0 - share);
  }
  void fill() {
    for (int i = 1; i < kCells; ++i) table[i] = exact(double(i) / kCells);
  }
  double at(double share) const {
    if (__builtin_expect(kEdge < share && share < 1.0 - kEdge, 1)) {
      const double place = share * kCells;
      const int cell = int(place);
      return table[cell] + (place - cell) * (table[cell + 1] - table[cell]);
    }
    return exact(share);
  }
};

struct Item {
  double mark;
  int64_t who;
  bool operator<(const Item& other) const {  // no mark is negative: its bits rise with it; compared without a branch
    return whole() < other.whole();
  }
  unsigned __int128 whole() const {
    uint64_t bits;
    __builtin_memcpy(&bits, &mark, 8);
    return (static_cast<unsigned __int128>(bits) << 64) | uint64_t(who);
  }
};

inline void rise(Item* heap, int64_t i, Item item) {
  while (i > 0) {
    const int64_t parent = (i - 1) >> 1;
    if (heap[parent] < item) break;
    heap[i] = heap[parent];
    i = parent;
  }
  heap[i] = item;
}

inline void sift(Item* heap, int64_t size, Item item) {  // the hole at the root sinks to a leaf, the item rises
  int64_t i = 0, child = 1;
  while (child + 1 < size) {
    child += int64_t(heap[child + 1] < heap[child]);
    heap[i] = heap[child];
    i = child;
    child = 2 * i + 1;
  }
  if (child < size) {
    heap[i] = heap[child];
    i = child;
  }
  rise(heap, i, item);
}

struct Heaps {  // a heap a row; its root in the second quarter of a cache line, so that siblings share a line
  int64_t stride;
  std::vector<Item> items;
  Item* first;

  Heaps(int64_t rows, int64_t entries) : stride((entries + 3) / 4 * 4), items(rows * stride + 8) {
    const auto address = reinterpret_cast<uintptr_t>(items.data());
    first = items.data() + (64 - address % 64) % 64 / sizeof(Item) + 1;
  }
  Item* of(int64_t row) { return first + row * stride; }
};

struct Tree {  // winners of a tournament over engines, node 1 the root
  std::vector<Item> nodes;
  int64_t width = 2;

  explicit Tree(int64_t leaves) {
    while (width < leaves) width *= 2;
    nodes.assign(2 * width, Item{kInf, 0});
    for (int64_t i = 0; i < width; ++i) nodes[width + i].who = i;
  }
  int64_t set(int64_t leaf, double value) {
    nodes[width + leaf].mark = value;
    return width + leaf;
  }
  void climb(int64_t& node, Item& best, int64_t last) {  // up to the round of node `last`
    while (node > last) {
      const Item rival = nodes[node ^ 1];
      best = rival < best ? rival : best;
      node >>= 1;
      nodes[node] = best;
    }
  }
  void replay(int64_t leaf, double value) {
    int64_t node = set(leaf, value);
    Item best{value, leaf};
    climb(node, best, 1);
  }
};

struct alignas(64) Engine {
  double clock = 0.0, resume = 0.0, context = 0.0, departs = kInf, returns = kInf;
  int32_t residents = 0, in_flight = 0, outside = 0, queued = 0, head = -1, tail = -1;
};

struct alignas(64) Rollout {
  int32_t group, member, engine, turn, turns, tokens;
  int64_t context, response, next;
  double dispatched, entered;
};

struct alignas(64) Group {
  int64_t id, tokens, response;
  int32_t started, done, solved;
  double solve_rate, opened, ready;
};

struct Job {
  int64_t engines, slots, group, batch, cap, turns;
  double tool_s, base_s, per_resident_s, per_context_s, mean, sigma, trainer_base_s, trainer_s_per_token, sync_s;
};

template <bool kTurns, bool kContext>
class Simulation {
 public:
  Simulation(const Job& j, uint64_t seed)
      : job(j), key(mixed(seed + 0x9E3779B97F4A7C15ull)), tree(j.engines), loads(j.engines), engines(j.engines),
        heap(j.engines, j.slots + 1), outs(j.engines, j.slots + 2), rollouts(j.engines * j.slots) {
    const int64_t groups_held = rollouts.size() + job.cap + job.batch + 16;  // one each in flight, the rest finished
    groups.resize(groups_held);
    versions.resize(groups_held * job.group);
    ring.resize(groups_held);
    for (int64_t i = rollouts.size() - 1; i >= 0; --i) free_rollouts.push_back(i);
    for (int64_t i = groups_held - 1; i >= 0; --i) free_groups.push_back(i);
    for (int64_t e = 0; e < job.engines; ++e) loads.replay(e, 0.0);
    length.location = std::log(job.mean) - job.sigma * job.sigma / 2.0;
    length.sigma = job.sigma;
    length.fill();
    tool.mean = job.tool_s;
    tool.fill();
    for (int64_t b = 0; b <= job.slots; ++b) step_s.push_back(b ? job.base_s + job.per_resident_s * b : 0.0);
    staleness.resize(1024);
    latency.resize(512);
  }

  void run(int64_t until_step) {
    settle();
    while (step < until_step) {
      const Item next = tree.nodes[1];
      ++events;
      if (next.mark <= trainer_at) {
        pass(next.mark);
        engine_event(next.who);
      } else {
        pass(trainer_at);
        trainer_event();
      }
      settle();
    }
  }

  double now = 0.0;
  int64_t step = 0, trained = 0, trained_tokens = 0, events = 0, useful = 0;
  std::vector<int64_t> staleness, latency;

 private:
  void pass(double at) {
#ifdef COUNTERS
    const double dt = at - now;
    area_flight += dt * in_flight;
    area_resident += dt * resident;
    area_outside += dt * outside;
    area_queued += dt * queued;
    area_ring += dt * ring_count;
#endif
    now = at;
  }

  void account(Engine& e, double d, double dt) {
#ifdef COUNTERS
    context_area += (e.context + 0.5 * e.residents * d) * dt;
    decoded += e.residents * d;
    busy_s += dt;
#else
    (void)dt;
#endif
    if (kContext) e.context += e.residents * d;
    (void)d;
  }

  void advance(Engine& e) {
    const double dt = now - e.resume;
    if (dt <= 0.0) return;
    e.resume = now;
    const int64_t b = e.residents;
    if (b == 0) return;
    double each = step_s[b], d;
    if (kContext) {
      each += job.per_context_s * e.context;
      d = 2.0 * dt / (each + std::sqrt(each * each + 2.0 * job.per_context_s * b * dt));
    } else {
      d = dt / each;
    }
    e.clock += d;
    account(e, d, dt);
  }

  void touch(int64_t id) {
    Engine& e = engines[id];
    e.departs = kInf;
    if (e.residents > 0) {
      const double d = heap_of(id)[0].mark - e.clock;
      double each = step_s[e.residents];
      if (kContext) each += job.per_context_s * e.context + 0.5 * job.per_context_s * e.residents * d;
      e.departs = e.resume + each * d;
    }
    schedule(id, kTurns ? std::min(e.departs, e.returns) : e.departs);
  }

  // Whoever comes to the fore among 1/256 of the engines will be the next of these, as will later, among 1/64 and 1/8 of
  // all: what an event reads one after the other (engine and heap, rollout, group) is fetched ahead, a round for each.
  void schedule(int64_t id, double at) {
    Item best{at, id};
    int64_t node = tree.set(id, at);
    if (node > 127) {
      tree.climb(node, best, 511);
      __builtin_prefetch(&engines[best.who]);
      for (int64_t i = 0; i < std::min<int64_t>(64, heap.stride); i += 4) __builtin_prefetch(heap.of(best.who) + i);
      tree.climb(node, best, 127);
      __builtin_prefetch(&rollouts[heap.of(best.who)->who]);
      tree.climb(node, best, 15);
      __builtin_prefetch(&groups[rollouts[heap.of(best.who)->who].group]);
    }
    tree.climb(node, best, 1);
  }

  Item* heap_of(int64_t e) { return heap.of(e); }
  Item* outs_of(int64_t e) { return outs.of(e); }

  void join(int64_t id, int64_t r) {
    Engine& e = engines[id];
    const Item item{e.clock + rollouts[r].tokens, r};
    const int64_t size = e.residents++;
    if (kContext) e.context += rollouts[r].context;
#ifdef COUNTERS
    ++resident;
    rollouts[r].entered = now;
#endif
    if (hole == id) {
      hole = -1;
      sift(heap_of(id), size + 1, item);
    } else {
      rise(heap_of(id), size, item);
    }
  }

  void close_hole(int64_t id) {
    Engine& e = engines[id];
    hole = -1;
    if (e.residents == 0) {
      e.context = e.clock = 0.0;
      return;
    }
    Item* items = heap_of(id);
    sift(items, e.residents, items[e.residents]);
    if (e.clock > 1e9) {
      for (int64_t i = 0; i < e.residents; ++i) items[i].mark -= e.clock;
      e.clock = 0.0;
    }
  }

  void arrive(int64_t id, int64_t r) {
    Engine& e = engines[id];
    if (e.residents < job.slots) return join(id, r);
    rollouts[r].next = -1;
    if (e.queued++ == 0) {
      e.head = int32_t(r);
    } else {
      rollouts[e.tail].next = r;
    }
    e.tail = int32_t(r);
    ++queued;
    rollouts[r].entered = now;
  }

  void admit(int64_t id) {
    Engine& e = engines[id];
    while (e.queued > 0 && e.residents < job.slots) {
      const int64_t r = e.head;
      e.head = int32_t(rollouts[r].next);
      --e.queued;
      --queued;
      join(id, r);
    }
  }

  void draw(Rollout& r, int64_t turn) {
    const double value = length.at(uniform(key, kResponse, groups[r.group].id, r.member, turn));
    r.turn = int32_t(turn);
    r.tokens = std::max(1, int32_t(value + 0.5));
  }

  void open_group() {
    open = free_groups.back();
    free_groups.pop_back();
    if (!free_groups.empty()) {
      __builtin_prefetch(&groups[free_groups.back()]);
      __builtin_prefetch(&versions[free_groups.back() * job.group]);
    }
    Group& g = groups[open];
    g.id = next_group++;
    g.tokens = g.response = g.started = g.done = g.solved = 0;
    g.solve_rate = uniform(key, kSolveRate, g.id, 0, 0);
    g.opened = now;
  }

  void dispatch() {
    const int64_t g = open;
    Group& group = groups[g];
    const int32_t member = group.started++;
    if (group.started == job.group) open = -1;
    const int64_t r = free_rollouts.back();
    free_rollouts.pop_back();
    ++in_flight;
    versions[g * job.group + member] = version;
    Rollout& rollout = rollouts[r];
    rollout.group = int32_t(g);
    rollout.member = member;
    rollout.context = rollout.response = 0;
    rollout.turns = int32_t(job.turns);
    rollout.dispatched = now;
    draw(rollout, 0);
    int64_t e = loose;
    if (e >= 0) {
      loose = -1;
    } else {
      e = loads.nodes[1].who;
      loads.replay(e, double(++engines[e].in_flight));
    }
    rollout.engine = int32_t(e);
    advance(engines[e]);
    arrive(e, r);
    if (e != handled) touch(e);
  }

  void finish(int64_t id, int64_t r) {
    Rollout& rollout = rollouts[r];
    Group& g = groups[rollout.group];
    g.solved += uniform(key, kReward, g.id, rollout.member, 0) < g.solve_rate;
    g.tokens += rollout.context;
    g.response += rollout.response;
    ++g.done;
    --in_flight;
#ifdef COUNTERS
    const double seconds = now - rollout.dispatched;
    rollout_s += seconds;
    int64_t bits;
    __builtin_memcpy(&bits, &seconds, 8);
    ++latency[std::max<int64_t>(0, std::min<int64_t>(511, (bits >> 49) - ((1023 - 16) << 3)))];
    spanned += version - versions[rollout.group * job.group + rollout.member];
    attempted_response += rollout.response;
#endif
    free_rollouts.push_back(r);
    if (double(engines[id].in_flight) == loads.nodes[1].mark) {
      loose = id;
    } else {
      loads.replay(id, double(--engines[id].in_flight));
    }
    if (g.done == job.group) {
      g.ready = now;
      int64_t place = ring_head + ring_count++;
      if (place >= int64_t(ring.size())) place -= ring.size();
      ring[place] = rollout.group;
    }
  }

  void engine_event(int64_t id) {
    Engine& e = engines[id];
    handled = id;
    if (!kTurns || e.departs <= e.returns) {
      departure(id);
      admit(id);
      return;
    }
    Item* items = outs_of(id);
    const int64_t r = items[0].who;
    --outside;
    if (--e.outside > 0) sift(items, e.outside, items[e.outside]);
    e.returns = e.outside > 0 ? items[0].mark : kInf;
    advance(e);
    arrive(id, r);
  }

  void departure(int64_t id) {
    Engine& e = engines[id];
    const Item top = heap_of(id)[0];
    account(e, top.mark - e.clock, now - e.resume);
    e.clock = top.mark;
    e.resume = now;
    Rollout& r = rollouts[top.who];
    r.context += r.tokens;
    r.response += r.tokens;
    if (kContext) e.context -= r.context;
    --e.residents;
#ifdef COUNTERS
    --resident;
    resident_s += now - r.entered;
#endif
    hole = id;
    const int64_t turn = r.turn + 1;
    if (!kTurns || turn >= r.turns) return finish(id, top.who);
    draw(r, turn);
    const double seconds = tool.at(uniform(key, kToolTime, groups[r.group].id, r.member, turn));
    rise(outs_of(id), e.outside++, Item{now + seconds, top.who});
    e.returns = outs_of(id)[0].mark;
    ++outside;
  }

  void settle() {
    if (phase == 0 && ring_count >= job.batch) start_training();
    while (in_flight < int64_t(rollouts.size())) {
      if (open < 0) {
        if (ring_count >= job.cap) break;
        open_group();
      }
      dispatch();
    }
    if (loose >= 0) {
      loads.replay(loose, double(--engines[loose].in_flight));
      loose = -1;
    }
    if (handled >= 0) {
      const int64_t id = handled;
      handled = -1;
      if (hole == id) close_hole(id);
      touch(id);
    }
  }

  void start_training() {
    int64_t tokens = 0;
    for (int64_t i = 0; i < job.batch; ++i) {
      const int64_t g = ring[ring_head];
      ring_head = ring_head + 1 < int64_t(ring.size()) ? ring_head + 1 : 0;
      --ring_count;
      tokens += groups[g].tokens;
      for (int64_t m = 0; m < job.group; ++m) ++staleness[std::min<int64_t>(1023, version - versions[g * job.group + m])];
      if (0 < groups[g].solved && groups[g].solved < job.group) useful += job.group;
      free_groups.push_back(g);
    }
    trained += job.batch * job.group;
    trained_tokens += tokens;
    phase = 1;
    trainer_at = now + (job.trainer_base_s + double(tokens) * job.trainer_s_per_token);
  }

  void trainer_event() {
    trainer_at = kInf;
    const int ended = phase;
    phase = 0;
    if (ended == 2) return;
    ++step;
    ++version;
    if (job.sync_s <= 0.0) return;
    for (int64_t e = 0; e < job.engines; ++e) {
      advance(engines[e]);
      engines[e].resume += job.sync_s;
      touch(e);
    }
    phase = 2;
    trainer_at = now + job.sync_s;
  }

  const Job job;
  const uint64_t key;
  Law length, tool;
  std::vector<double> step_s;
  Tree tree, loads;
  std::vector<Engine> engines;
  Heaps heap, outs;
  std::vector<Rollout> rollouts;
  std::vector<Group> groups;
  std::vector<int64_t> versions, ring, free_rollouts, free_groups;
  int64_t open = -1, loose = -1, hole = -1, handled = -1, next_group = 0, in_flight = 0, resident = 0, outside = 0;
  int64_t queued = 0, ring_head = 0, ring_count = 0, version = 0;
  int phase = 0;
  double trainer_at = kInf;
  double area_flight = 0, area_resident = 0, area_outside = 0, area_queued = 0, area_ring = 0, context_area = 0;
  double decoded = 0, busy_s = 0, rollout_s = 0, resident_s = 0;
  int64_t spanned = 0, attempted_response = 0;
};

template <bool kTurns, bool kContext>
void measure(const Job& job, uint64_t seed, int64_t warm_steps, int64_t steps) {
  Simulation<kTurns, kContext> simulation(job, seed);
  simulation.run(warm_steps);
  const double begin = simulation.now;
  const int64_t trained = simulation.trained, events = simulation.events;
  const std::clock_t started = std::clock();
  simulation.run(warm_steps + steps);
  const double cpu_s = double(std::clock() - started) / CLOCKS_PER_SEC;
  double count = 0.0, sum = 0.0;
  for (size_t i = 0; i < simulation.staleness.size(); ++i) {
    count += double(simulation.staleness[i]);
    sum += double(i) * double(simulation.staleness[i]);
  }
  std::printf("%.6f %.17g %.17g %lld %lld %.6f\n", cpu_s, begin, simulation.now,
              static_cast<long long>(simulation.trained - trained), static_cast<long long>(simulation.events - events),
              count > 0.0 ? sum / count : 0.0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 19) return 2;
  const auto whole = [&](int i) { return std::atoll(argv[i]); };
  const auto real = [&](int i) { return std::atof(argv[i]); };
  const Job job{whole(1), whole(2), whole(3), whole(4), whole(5), whole(6), real(7), real(8), real(9),
                real(10), real(11), real(12), real(13), real(14), real(15)};
  const uint64_t seed = std::strtoull(argv[16], nullptr, 10);
  const bool turns = job.turns > 1, context = job.per_context_s > 0.0;
  const auto run = turns ? (context ? measure<true, true> : measure<true, false>)
                         : (context ? measure<false, true> : measure<false, false>);
  run(job, seed, whole(17), whole(18));
  return 0;
}
