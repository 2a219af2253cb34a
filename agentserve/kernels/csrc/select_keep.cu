// Marks the best scores of each group or request: the k-th best key is found eight bits at a time,
// nothing is sorted. keys.py says what a key is; no two of a request are equal.
#include "common.cuh"

namespace agentserve {
namespace {

constexpr int kThreads = 512, kDigitBits = 8, kDigits = 1 << kDigitBits;

__device__ uint64_t key_of(float score, uint32_t index, uint32_t offset) {
  const uint32_t bits = __float_as_uint(score + 0.f);  // -0 and 0 are one
  uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  if (isnan(score)) ordered = 0;
  uint32_t x = index + offset;
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return static_cast<uint64_t>(ordered) << 32 | (x ^ (x >> 16));
}

// The scores that compete in one block, and how many of them are to be marked.
template <bool kOfGroup>
struct Contest {
  const float* scores;
  const int32_t* groups;
  const int8_t* chosen;
  int begin, end, group;
  uint32_t offset;

  __device__ bool competes(int i) const { return kOfGroup ? groups[i] == group : chosen[i] == 0; }
  __device__ uint64_t key(int i) const { return key_of(scores[i], i - begin, offset); }
};

// Which digit the k-th largest number has, if `histogram` counts digits; k becomes its rank among
// those that have this digit. For the first warp.
__device__ int digit_of_kth(const int* histogram, int& k) {
  constexpr int kOwn = kDigits / kWarp;
  const int lane = threadIdx.x;
  int own = 0;
  for (int i = 0; i < kOwn; ++i) own += histogram[kDigits - 1 - (lane * kOwn + i)];
  int up_to = own;  // how many numbers the lanes up to this one have: they go from high digits down
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(~0u, up_to, step);
    if (lane >= step) up_to += other;
  }
  const int winner = __ffs(__ballot_sync(~0u, up_to >= k)) - 1;
  int digit = 0, rank = k - (up_to - own);
  if (lane == winner) {
    digit = kDigits - 1 - lane * kOwn;
    while (rank > histogram[digit]) rank -= histogram[digit--];
  }
  k = __shfl_sync(~0u, rank, winner);
  return __shfl_sync(~0u, digit, winner);
}

template <bool kOfGroup>
__global__ void __launch_bounds__(kThreads)
    mark_best(const float* scores, const int32_t* indptr, const int32_t* want,
              const int32_t* groups, int8_t* chosen, uint32_t offset) {
  __shared__ int histogram[kDigits];
  __shared__ int competing, rank;
  __shared__ uint64_t threshold;
  const int request = blockIdx.x;
  const Contest<kOfGroup> contest{scores, groups, chosen, indptr[request], indptr[request + 1],
                                  static_cast<int>(blockIdx.y), offset};
  if (threadIdx.x == 0) competing = 0, threshold = 0;
  __syncthreads();
  int own = 0;
  for (int i = contest.begin + threadIdx.x; i < contest.end; i += kThreads) {
    own += contest.competes(i);
  }
  atomicAdd(&competing, own);
  __syncthreads();
  const int already = kOfGroup ? 0 : contest.end - contest.begin - competing;
  const int k = min(competing, want[kOfGroup ? blockIdx.y : request] - already);
  if (k <= 0) return;
  if (threadIdx.x == 0) rank = k;
  for (int shift = 64 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    for (int i = threadIdx.x; i < kDigits; i += kThreads) histogram[i] = 0;
    __syncthreads();
    // Of the numbers that agree with the threshold's digits so far, the next digit.
    const uint64_t decided = shift == 64 - kDigitBits ? 0 : ~0ull << (shift + kDigitBits);
    for (int i = contest.begin + threadIdx.x; i < contest.end; i += kThreads) {
      const uint64_t key = contest.key(i);
      if (contest.competes(i) && (key & decided) == threshold) {
        atomicAdd(&histogram[key >> shift & (kDigits - 1)], 1);
      }
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
      int k_left = rank;
      const uint64_t digit = digit_of_kth(histogram, k_left);
      if (threadIdx.x == 0) threshold |= digit << shift, rank = k_left;
    }
    __syncthreads();
  }
  for (int i = contest.begin + threadIdx.x; i < contest.end; i += kThreads) {
    if (contest.competes(i) && contest.key(i) >= threshold) chosen[i] = 1;
  }
}

}  // namespace

void mark_best_of_groups(TensorView scores, TensorView indptr, TensorView group_min,
                         TensorView groups, TensorView chosen, int64_t offset) {
  ffi::CUDADeviceGuard guard(scores.device().device_id);
  const dim3 grid(indptr.size(0) - 1, group_min.size(0));
  mark_best<true><<<grid, kThreads, 0, get_stream(scores.device())>>>(
      data<float>(scores), data<int32_t>(indptr), data<int32_t>(group_min), data<int32_t>(groups),
      data<int8_t>(chosen), offset);
  check_launch();
}

void fill_up(TensorView scores, TensorView indptr, TensorView keep, TensorView chosen,
             int64_t offset) {
  ffi::CUDADeviceGuard guard(scores.device().device_id);
  mark_best<false><<<indptr.size(0) - 1, kThreads, 0, get_stream(scores.device())>>>(
      data<float>(scores), data<int32_t>(indptr), data<int32_t>(keep), nullptr,
      data<int8_t>(chosen), offset);
  check_launch();
}

}  // namespace agentserve

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mark_best_of_groups, agentserve::mark_best_of_groups);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fill_up, agentserve::fill_up);
