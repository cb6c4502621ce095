/* Layout changes between the arrays of the caller and the order in which products read operands. */

/* dst[c*ldd + r] = src[r*lds + c] */
static TARGET void transpose(float *dst, ptrdiff_t ldd, const float *src, ptrdiff_t lds, ptrdiff_t rows,
                             ptrdiff_t cols) {
  ptrdiff_t rows4 = rows & ~(ptrdiff_t)3, cols4 = cols & ~(ptrdiff_t)3;
  for (ptrdiff_t c = 0; c < cols4; c += 4)
    for (ptrdiff_t r = 0; r < rows4; r += 4) transpose4(dst + c * ldd + r, ldd, src + r * lds + c, lds);
  for (ptrdiff_t c = 0; c < cols; c++)
    for (ptrdiff_t r = c < cols4 ? rows4 : 0; r < rows; r++) dst[c * ldd + r] = src[r * lds + c];
}

/*
 * dst[p*channels + ch] = src[ch*ld + p] for bytes. Four channels (Atari's stacked frames) are
 * interleaved 16 pixels at a time.
 */
static TARGET void interleave_bytes(uint8_t *dst, const uint8_t *src, ptrdiff_t ld, ptrdiff_t pixels,
                                    ptrdiff_t channels) {
  if (channels == 4 && pixels >= 16) {
    for (ptrdiff_t p = 0; p + 16 <= pixels; p += 16) interleave4x16(dst + 4 * p, src + p, ld);
    /* The last 16 pixels overlap those before. */
    if (pixels % 16) interleave4x16(dst + 4 * (pixels - 16), src + pixels - 16, ld);
    return;
  }
  for (ptrdiff_t p = 0; p < pixels; p++)
    for (ptrdiff_t ch = 0; ch < channels; ch++) dst[p * channels + ch] = src[ch * ld + p];
}

/* Converts rows of floats to rows of operands. */
static TARGET void rows_to_units(float *dst, const float *src, ptrdiff_t rows, ptrdiff_t n) {
  for (ptrdiff_t i = 0; i < rows; i++, dst += in_units(n), src += n)
    for (ptrdiff_t k = 0; k < n; k += VW * PER_UNIT) {
      ptrdiff_t count = min(VW * PER_UNIT, n - k);
      put(dst + k / PER_UNIT, v_row_units(src + k, count), in_units(count));
    }
}

/* dst[i] = dy[i] where y[i] > 0, else 0 */
INLINE void mask_vector(ptrdiff_t i, ptrdiff_t count, float *dst, const float *dy, const float *y) {
  put(dst + i, v_where_positive(get(y + i, count), get(dy + i, count)), count);
}

/*
 * dz[n][out] is dy where y is above zero, 0 elsewhere; without a ReLU, y is NULL and dz is dy. db
 * is the sum of dz over the rows; it may be NULL.
 */
static TARGET void dense_gradient(float *dz, float *db, const float *y, const float *dy, ptrdiff_t n, ptrdiff_t out) {
  for (ptrdiff_t i = 0; i < n * out; i += VW) {
    ptrdiff_t count = min(VW, n * out - i);
    put(dz + i, y ? v_where_positive(get(y + i, count), get(dy + i, count)) : get(dy + i, count), count);
  }
  for (ptrdiff_t o = 0; db && o < out; o += VW) {
    ptrdiff_t count = min(VW, out - o);
    vec acc = v_zero();
    for (ptrdiff_t i = 0; i < n; i++) acc = v_add(acc, get(dz + i * out + o, count));
    put(db + o, acc, count);
  }
}
