// In place of FlashInfer's header of this name: what the sources use of it, for tensors on the CPU.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

namespace tvm::ffi {
struct CUDADeviceGuard {
  explicit CUDADeviceGuard(int) {}
};
}  // namespace tvm::ffi
namespace ffi = tvm::ffi;

inline cudaStream_t get_stream(DLDevice) { return nullptr; }
#define cudaGetLastError() cudaSuccess
#define cudaGetErrorString(status) ""

#define DISPATCH_DLPACK_DTYPE_TO_CTYPE_FP32_FP16(dtype, T, ...) \
  [&]() -> bool {                                               \
    if ((dtype).code == kDLBfloat) {                            \
      using T = __nv_bfloat16;                                  \
      return __VA_ARGS__();                                     \
    }                                                           \
    if ((dtype).bits == 16) {                                   \
      using T = __half;                                         \
      return __VA_ARGS__();                                     \
    }                                                           \
    using T = float;                                            \
    return __VA_ARGS__();                                       \
  }()
