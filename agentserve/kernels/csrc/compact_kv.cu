// Moves the rows of many buffers in one launch (see triton/compact_kv.py, and ops.compact_kv for
// why moves may follow one another without more synchronisation than here).
//
// A block owns 128 bytes of every row of one buffer: eight threads of 16 bytes side by side, 32
// rows, and each thread has eight moves under way.
#include "common.cuh"

namespace agentserve {
namespace {

constexpr int kLanes = 8, kThreads = 256, kInFlight = 8;
constexpr int kMoves = kThreads / kLanes * kInFlight;

__global__ void __launch_bounds__(kThreads)
    move_rows(const int64_t* table, const int64_t* source, const int64_t* target, int n,
              int row_vectors) {
  uint4* const buffer = reinterpret_cast<uint4*>(table[blockIdx.y]);
  const int column = blockIdx.x * kLanes + threadIdx.x % kLanes;
  const int row = threadIdx.x / kLanes;
  const bool inside = column < row_vectors;
  for (int first = 0; first < n; first += kMoves) {
    uint4 vector[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int move = first + i * (kThreads / kLanes) + row;
      if (inside && move < n) vector[i] = buffer[source[move] * row_vectors + column];
    }
    __syncthreads();  // all reads come before any write
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int move = first + i * (kThreads / kLanes) + row;
      if (inside && move < n) buffer[target[move] * row_vectors + column] = vector[i];
    }
  }
}

}  // namespace

void compact_kv(TensorView table, TensorView source, TensorView target, int64_t row_vectors) {
  ffi::CUDADeviceGuard guard(source.device().device_id);
  const dim3 grid(ceil_div(row_vectors, kLanes), table.size(0));
  move_rows<<<grid, kThreads, 0, get_stream(source.device())>>>(
      data<int64_t>(table), data<int64_t>(source), data<int64_t>(target), source.size(0),
      row_vectors);
  check_launch();
}

}  // namespace agentserve

TVM_FFI_DLL_EXPORT_TYPED_FUNC(compact_kv, agentserve::compact_kv);
