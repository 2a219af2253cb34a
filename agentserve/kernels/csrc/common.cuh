// What all kernels share: element types, vector loads, the check of a launch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "tvm_ffi_utils.h"

namespace agentserve {

constexpr int kWarp = 32;
constexpr float kMinusInfinity = -INFINITY;

// Eight elements, as they are stored: 16 or 32 bytes.
template <typename T>
struct alignas(16) Eight {
  T element[8];
};

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ __forceinline__ T narrow(float x) {
  return static_cast<T>(x);
}

template <typename T>
__device__ __forceinline__ Eight<T> load_eight(const T* from) {
  return *reinterpret_cast<const Eight<T>*>(from);
}

template <typename T>
__device__ __forceinline__ Eight<T> zero_eight() {
  Eight<T> zero;
#pragma unroll
  for (int i = 0; i < 8; ++i) zero.element[i] = T(0.f);
  return zero;
}

template <typename T>
T* data(const TensorView& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

inline void check_launch() {
  const cudaError_t status = cudaGetLastError();
  TVM_FFI_ICHECK(status == cudaSuccess) << "launch failed: " << cudaGetErrorString(status);
}

}  // namespace agentserve
