// For each of some vectors, the most similar of many others.
#pragma once

#include "common.cuh"

namespace agentserve {

// A block has a tile of 16 vectors and goes over the others in tiles of 64, 64 columns at a time.
//
//   thread   0..63    64..127
//   other    0..63     0..63      its products: one other vector, eight own ones
//   own      0..7      8..15
struct Nearest {
  static constexpr int kOwn = 16, kOthers = 64, kColumns = 64, kThreads = 128;
  static constexpr int kEach = kOwn * kOthers / kThreads;
  // Up to 128 registers a thread: left to itself, ptxas saves registers and spills.
  static constexpr int kBlocksPerSm = 4;
};

// Lines are padded by 16 bytes: eight threads read eight lines from different banks.
template <typename T>
struct NearestTile {
  alignas(16) T others[Nearest::kOthers][Nearest::kColumns + 16 / sizeof(T)];
  alignas(16) float own[Nearest::kOwn][Nearest::kColumns];
  float own_square[Nearest::kOwn];
};

struct Best {
  float score;
  int which;

  // Of equal ones the first.
  __device__ void compete(float other, int number) {
    if (other > score || (other == score && number < which)) score = other, which = number;
  }
};

// own(i) and others(j) are pointers to rows of `dim` elements, 16-byte aligned, dim a multiple of
// 8. Thread i < 16 gets which of `n_others` is most similar to own(first + i), and with which score:
// the product over the other's length (to compare), or the cosine.
template <typename T, typename Own, typename Others>
__device__ Best find_nearest(Own own, int first, int n_own, Others others, int n_others, int dim,
                             bool cosine) {
  using N = Nearest;
  constexpr int kVectors = N::kColumns / 8;
  __shared__ NearestTile<T> tile;
  __shared__ Best bests[N::kOwn][N::kOthers / kWarp];
  const int mine = threadIdx.x % N::kOthers, rows = threadIdx.x / N::kOthers * N::kEach;
  Best best[N::kEach];
#pragma unroll
  for (int r = 0; r < N::kEach; ++r) best[r] = {kMinusInfinity, INT32_MAX};
  if (threadIdx.x < N::kOwn) tile.own_square[threadIdx.x] = 0.f;
  for (int other = 0; other < n_others; other += N::kOthers) {
    float product[N::kEach] = {}, square = 0.f;
    for (int column = 0; column < dim; column += N::kColumns) {
      __syncthreads();
      for (int i = threadIdx.x; i < N::kOthers * kVectors; i += N::kThreads) {
        const int j = other + i / kVectors, d = i % kVectors * 8;
        *reinterpret_cast<Eight<T>*>(&tile.others[i / kVectors][d]) =
            j < n_others && column + d < dim ? load_eight(others(j) + column + d)
                                             : zero_eight<T>();
      }
      for (int i = threadIdx.x; i < N::kOwn * kVectors; i += N::kThreads) {
        const int j = first + i / kVectors, d = i % kVectors * 8;
        const Eight<T> vector = j < n_own && column + d < dim ? load_eight(own(j) + column + d)
                                                              : zero_eight<T>();
#pragma unroll
        for (int e = 0; e < 8; ++e) tile.own[i / kVectors][d + e] = widen(vector.element[e]);
      }
      __syncthreads();
      if (other == 0 && threadIdx.x < N::kOwn) {
        for (int d = 0; d < N::kColumns; ++d) {
          tile.own_square[threadIdx.x] += tile.own[threadIdx.x][d] * tile.own[threadIdx.x][d];
        }
      }
#pragma unroll 2
      for (int d = 0; d < N::kColumns; d += 8) {
        const Eight<T> vector = load_eight(&tile.others[mine][d]);
#pragma unroll
        for (int e = 0; e < 8; ++e) square += widen(vector.element[e]) * widen(vector.element[e]);
#pragma unroll
        for (int r = 0; r < N::kEach; ++r) {
          const Eight<float> q = load_eight(&tile.own[rows + r][d]);
#pragma unroll
          for (int e = 0; e < 8; ++e) product[r] += q.element[e] * widen(vector.element[e]);
        }
      }
    }
    if (other + mine < n_others) {
      const float length = fmaxf(sqrtf(square), 1e-12f);
#pragma unroll
      for (int r = 0; r < N::kEach; ++r) best[r].compete(product[r] / length, other + mine);
    }
  }
#pragma unroll
  for (int r = 0; r < N::kEach; ++r) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const float score = __shfl_xor_sync(~0u, best[r].score, step);
      const int which = __shfl_xor_sync(~0u, best[r].which, step);
      best[r].compete(score, which);
    }
    if (threadIdx.x % kWarp == 0) bests[rows + r][mine / kWarp] = best[r];
  }
  __syncthreads();
  Best result{kMinusInfinity, INT32_MAX};
  if (threadIdx.x < N::kOwn) {
    for (const Best& each : bests[threadIdx.x]) result.compete(each.score, each.which);
    if (cosine) result.score /= fmaxf(sqrtf(tile.own_square[threadIdx.x]), 1e-12f);
  }
  return result;
}

}  // namespace agentserve
