// A variant of FlashInfer's prefill attention that also writes the raw logits of each request's last
// rows to global memory. Not included by other sources: cuda/prefill_dump.py hands it to FlashInfer,
// which puts it behind the definition of Params.
//
// dump[batch, dump_rows, q_heads, dump_keys], float32, before the softmax scale. With qo_len rows of
// a request in this call, row qo_len - 1 is dumped at dump_rows - 1, and so on backwards. What a row
// does not see is not written.
struct DumpLogits : AttentionVariantBase {
  static constexpr bool use_softmax = true;

  uint32_t qo_len, kv_len, window_left;
  float sm_scale_log2;

  template <typename Params>
  __device__ __host__ DumpLogits(const Params& params, uint32_t batch_idx, uint8_t* smem_ptr) {
    qo_len = params.get_qo_len(batch_idx);
    kv_len = params.get_kv_len(batch_idx);
    window_left = kv_len;
    sm_scale_log2 = params.sm_scale * math::log2e;
  }

  REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx, {
    // Tiles reach past the rows, and the causal mask comes later.
    const uint32_t dump_rows = params.dump_rows;
    const bool seen = qo_idx < qo_len && kv_idx + qo_len <= kv_len + qo_idx;
    if (seen && qo_idx + dump_rows >= qo_len) {
      const uint64_t row = uint64_t(batch_idx) * dump_rows + (qo_idx + dump_rows - qo_len);
      params.dump[(row * params.num_qo_heads + qo_head_idx) * params.dump_keys + kv_idx] = logits;
    }
    return logits;
  })
};
