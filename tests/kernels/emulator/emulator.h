// Runs CUDA kernels on the CPU, to check what they compute: threads of a block are fibers, blocks
// run one after the other. Included before all else (g++ -include).
//
// A fiber runs until it waits for its warp or its block. When all of them wait, they go on together;
// some waiting and some gone, or warps apart, is reported: on a GPU it would hang. Fibers take turns
// in an order that is none of theirs, so that a missing barrier shows.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __forceinline__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after the other

namespace emulator {

constexpr int kWarp = 32, kStackBytes = 64 << 10;

enum class State { kRuns, kWaitsForWarp, kWaitsForBlock, kGone };

struct Fiber {
  ucontext_t context;
  State state;
  std::vector<char> stack;
  uint64_t offered;  // what it shows to its warp
};

struct Index {
  int x, y, z;
};

inline std::vector<Fiber> fibers;
inline ucontext_t scheduler;
inline std::function<void()> kernel;
inline int current;

inline void wait(State state) {
  Fiber& fiber = fibers[current];
  fiber.state = state;
  swapcontext(&fiber.context, &scheduler);
}

inline void run_fiber() {
  kernel();
  wait(State::kGone);
}

// What `lane` of this warp offers; all lanes offer, then all look.
template <typename T>
T exchange(T own, int lane) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  const int me = current;
  std::memcpy(&fibers[me].offered, &own, sizeof(T));
  wait(State::kWaitsForWarp);
  T other;
  std::memcpy(&other, &fibers[me / kWarp * kWarp + lane].offered, sizeof(T));
  wait(State::kWaitsForWarp);
  return other;
}

// Let the fibers from `begin` on that all wait for the same go on.
inline bool release(int begin, int end, State awaited) {
  for (int i = begin; i < end; ++i) {
    if (fibers[i].state != awaited) return false;
  }
  for (int i = begin; i < end; ++i) fibers[i].state = State::kRuns;
  return true;
}

}  // namespace emulator

inline emulator::Index threadIdx, blockIdx, gridDim, blockDim;

namespace emulator {

inline void run_block(int threads) {
  for (int i = 0; i < threads; ++i) {
    Fiber& fiber = fibers[i];
    getcontext(&fiber.context);
    fiber.stack.resize(kStackBytes);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
    fiber.state = State::kRuns;
  }
  for (;;) {
    for (int turn = 0; turn < threads; ++turn) {
      const int i = (turn * 37 + 11) % threads;  // block sizes are powers of 2
      if (fibers[i].state != State::kRuns) continue;
      current = i;
      threadIdx = {i, 0, 0};
      swapcontext(&scheduler, &fibers[i].context);
    }
    bool go_on = false;
    for (int i = 0; i < threads; i += kWarp) {
      go_on |= release(i, i + kWarp, State::kWaitsForWarp);
    }
    if (go_on || release(0, threads, State::kWaitsForBlock)) continue;
    for (const Fiber& fiber : fibers) {
      if (fiber.state != State::kGone) throw std::runtime_error("threads wait for each other");
    }
    return;
  }
}

inline void launch(dim3 grid, int threads, std::function<void()> call) {
  kernel = std::move(call);
  fibers.resize(threads);
  gridDim = {static_cast<int>(grid.x), static_cast<int>(grid.y), static_cast<int>(grid.z)};
  blockDim = {threads, 1, 1};
  for (int z = 0; z < gridDim.z; ++z) {
    for (int y = 0; y < gridDim.y; ++y) {
      for (int x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, y, z};
        run_block(threads);
      }
    }
  }
}

}  // namespace emulator

inline void __syncthreads() { emulator::wait(emulator::State::kWaitsForBlock); }

template <typename T>
T __shfl_xor_sync(unsigned, T own, int mask) {
  return emulator::exchange(own, emulator::current % emulator::kWarp ^ mask);
}

template <typename T>
T __shfl_up_sync(unsigned, T own, int delta) {
  const int lane = emulator::current % emulator::kWarp;
  return emulator::exchange(own, lane < delta ? lane : lane - delta);
}

template <typename T>
T __shfl_sync(unsigned, T own, int lane) {
  return emulator::exchange(own, lane);
}

inline unsigned __ballot_sync(unsigned, bool own) {
  unsigned votes = 0;
  for (int lane = 0; lane < emulator::kWarp; ++lane) {
    votes |= static_cast<unsigned>(emulator::exchange(own, lane)) << lane;
  }
  return votes;
}

inline int atomicAdd(int* sum, int more) {
  const int before = *sum;
  *sum += more;
  return before;
}

inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof(x));
  return bits;
}

template <typename T>
T __ldg(const T* from) {
  return *from;
}

inline int __ffs(unsigned x) { return __builtin_ffs(x); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
using std::isnan;

// FlashInfer's headers name these and do not call them here.
unsigned __byte_perm(unsigned, unsigned, unsigned);
float __frcp_rn(float);
