// Bipartite soft matching: a launch for the edges, one for the weighted means. Between them torch
// chooses the best edges.
#include "nearest.cuh"

namespace agentserve {
namespace {

constexpr int kThreads = 128;

// Tokens 0, 2, 4, ... or 1, 3, 5, ...
template <typename T>
struct EverySecond {
  const T* tokens;
  int first, dim;

  __device__ const T* operator()(int i) const {
    return tokens + static_cast<int64_t>(2 * i + first) * dim;
  }
};

template <typename T>
__global__ void __launch_bounds__(Nearest::kThreads, Nearest::kBlocksPerSm)
    find_edges(const T* metric, int n, int dim, float* similarity, int32_t* nearest) {
  const int first = blockIdx.x * Nearest::kOwn, lookers = ceil_div(n, 2);
  const Best best = find_nearest<T>(EverySecond<T>{metric, 0, dim}, first, lookers,
                                    EverySecond<T>{metric, 1, dim}, n / 2, dim, /*cosine=*/true);
  if (threadIdx.x < Nearest::kOwn && first + threadIdx.x < lookers) {
    similarity[first + threadIdx.x] = best.score;
    nearest[first + threadIdx.x] = best.which;
  }
}

// A block writes one of the tokens that remain.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    average(const T* x, const float* sizes, const int64_t* merged_from, const int64_t* merged_into,
            const int64_t* representative, int r, int dim, T* merged, float* weight) {
  const int64_t token = representative[blockIdx.x];
  for (int d = threadIdx.x; d < dim; d += kThreads) {
    float size = sizes[token];
    float total = widen(x[token * dim + d]) * size;
    for (int edge = 0; edge < r; ++edge) {
      if (merged_into[edge] == token) {
        const int64_t source = merged_from[edge];
        total += widen(x[source * dim + d]) * sizes[source];
        size += sizes[source];
      }
    }
    merged[static_cast<int64_t>(blockIdx.x) * dim + d] = narrow<T>(total / size);
    if (d == 0) weight[blockIdx.x] = size;
  }
}

}  // namespace

void similarity_edges(TensorView metric, TensorView similarity, TensorView nearest) {
  ffi::CUDADeviceGuard guard(metric.device().device_id);
  const int n = metric.size(0), dim = metric.size(1);
  TVM_FFI_ICHECK_EQ(dim % 8, 0) << "columns of metric";
  DISPATCH_DLPACK_DTYPE_TO_CTYPE_FP32_FP16(metric.dtype(), T, [&] {
    find_edges<T><<<ceil_div(similarity.size(0), Nearest::kOwn), Nearest::kThreads, 0,
                    get_stream(metric.device())>>>(data<T>(metric), n, dim, data<float>(similarity),
                                                   data<int32_t>(nearest));
    return true;
  });
  check_launch();
}

void similarity_average(TensorView x, TensorView sizes, TensorView merged_from,
                        TensorView merged_into, TensorView representative, TensorView merged,
                        TensorView weight) {
  ffi::CUDADeviceGuard guard(x.device().device_id);
  DISPATCH_DLPACK_DTYPE_TO_CTYPE_FP32_FP16(x.dtype(), T, [&] {
    average<T><<<merged.size(0), kThreads, 0, get_stream(x.device())>>>(
        data<T>(x), data<float>(sizes), data<int64_t>(merged_from), data<int64_t>(merged_into),
        data<int64_t>(representative), merged_from.size(0), x.size(1), data<T>(merged),
        data<float>(weight));
    return true;
  });
  check_launch();
}

}  // namespace agentserve

TVM_FFI_DLL_EXPORT_TYPED_FUNC(similarity_edges, agentserve::similarity_edges);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(similarity_average, agentserve::similarity_average);
