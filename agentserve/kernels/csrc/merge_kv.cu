// Pivot merging: one launch finds each dropped key's kept one, one makes the averages.
#include "nearest.cuh"

namespace agentserve {
namespace {

constexpr int kWarpsPerBlock = 4;

// One head's row in a slot of one buffer.
template <typename T>
struct Rows {
  T* buffer;
  const int64_t* slots;
  int kv_heads, head, dim;

  __device__ T* operator()(int i) const { return buffer + (slots[i] * kv_heads + head) * dim; }
};

// nearest[layer, head, i] = which of `kept` dropped key i is most similar to.
template <typename T>
__global__ void __launch_bounds__(Nearest::kThreads, Nearest::kBlocksPerSm)
    find_pivots(const int64_t* table, const int64_t* dropped, const int64_t* kept, int32_t* nearest,
                int m, int n, int dim) {
  const int head = blockIdx.y, layer = blockIdx.z, kv_heads = gridDim.y;
  T* const keys = reinterpret_cast<T*>(table[layer]);
  const int first = blockIdx.x * Nearest::kOwn;
  const Best best =
      find_nearest<T>(Rows<T>{keys, dropped, kv_heads, head, dim}, first, m,
                      Rows<T>{keys, kept, kv_heads, head, dim}, n, dim, /*cosine=*/false);
  if (threadIdx.x < Nearest::kOwn && first + threadIdx.x < m) {
    nearest[static_cast<int64_t>(layer * kv_heads + head) * m + first + threadIdx.x] = best.which;
  }
}

// A warp writes one head of one kept slot in the K or V buffer of one layer: its lanes look through
// `nearest` together, and each adds up its own columns of the rows found.
template <typename T, int kColumns>
__global__ void __launch_bounds__(kWarp* kWarpsPerBlock)
    average(const int64_t* table, const int64_t* dropped, const int64_t* kept,
            const int32_t* nearest, int m, int n, int layers, int dim) {
  const int number = blockIdx.x * kWarpsPerBlock + threadIdx.x / kWarp;
  if (number >= n) return;
  const int lane = threadIdx.x % kWarp;
  const int head = blockIdx.y, buffer = blockIdx.z, kv_heads = gridDim.y;
  T* const base = reinterpret_cast<T*>(table[buffer]);
  const Rows<T> rows{base, dropped, kv_heads, head, dim};
  const int32_t* const pivots =
      nearest + static_cast<int64_t>(buffer % layers * kv_heads + head) * m;
  float total[kColumns] = {};
  int count = 0;
  for (int first = 0; first < m; first += kWarp) {
    const bool joins = first + lane < m && pivots[first + lane] == number;
    for (unsigned found = __ballot_sync(~0u, joins); found; found &= found - 1) {
      const T* const row = rows(first + __ffs(found) - 1);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (c * kWarp + lane < dim) total[c] += widen(row[c * kWarp + lane]);
      }
      ++count;
    }
  }
  T* const own = Rows<T>{base, kept, kv_heads, head, dim}(number);
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    if (c * kWarp + lane < dim) {
      const float mine = widen(own[c * kWarp + lane]);
      own[c * kWarp + lane] =
          narrow<T>((mine * (1.f + count / 2.f) + total[c] / 2.f) / (1.f + count));
    }
  }
}

constexpr int kMaxDim = 256;

}  // namespace

void merge_kv(TensorView k_buffer, TensorView table, TensorView dropped, TensorView kept,
              TensorView nearest) {
  ffi::CUDADeviceGuard guard(kept.device().device_id);
  const int m = dropped.size(0), n = kept.size(0);
  const int layers = nearest.size(0), kv_heads = nearest.size(1), dim = k_buffer.size(2);
  TVM_FFI_ICHECK(dim % 8 == 0 && dim <= kMaxDim) << "dim";
  const cudaStream_t stream = get_stream(kept.device());
  DISPATCH_DLPACK_DTYPE_TO_CTYPE_FP32_FP16(k_buffer.dtype(), T, [&] {
    find_pivots<T><<<dim3(ceil_div(m, Nearest::kOwn), kv_heads, layers), Nearest::kThreads, 0,
                     stream>>>(data<int64_t>(table), data<int64_t>(dropped), data<int64_t>(kept),
                               data<int32_t>(nearest), m, n, dim);
    average<T, kMaxDim / kWarp>
        <<<dim3(ceil_div(n, kWarpsPerBlock), kv_heads, 2 * layers), kWarp * kWarpsPerBlock, 0,
           stream>>>(data<int64_t>(table), data<int64_t>(dropped), data<int64_t>(kept),
                     data<int32_t>(nearest), m, n, layers, dim);
    return true;
  });
  check_launch();
}

}  // namespace agentserve

TVM_FFI_DLL_EXPORT_TYPED_FUNC(merge_kv, agentserve::merge_kv);
