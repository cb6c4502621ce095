/*
 * Features times the embeddings of their taus (Dabney et al. 2018, Implicit Quantile Networks); see
 * modulate.go. Each product is rounded and the sums have one order, so all paths give the same bits.
 */

static TARGET void modulate(float *y, const float *x, const float *by, ptrdiff_t n, ptrdiff_t times, ptrdiff_t width) {
  for (ptrdiff_t i = 0; i < n; i++, x += width)
    for (ptrdiff_t k = 0; k < times; k++, y += width, by += width)
      for (ptrdiff_t j = 0; j < width; j += VW) {
        const ptrdiff_t count = min(VW, width - j);
        put(y + j, v_mul(get(x + j, count), get(by + j, count)), count);
      }
}

/* dx stays in the cache while its terms are added, one for each embedding. */
static TARGET void modulate_backward(float *dby, float *dx, const float *x, const float *by, const float *dy,
                                     ptrdiff_t n, ptrdiff_t times, ptrdiff_t width) {
  for (ptrdiff_t i = 0; i < n; i++, x += width, dx += width) {
    for (ptrdiff_t j = 0; j < width; j++) dx[j] = 0;
    for (ptrdiff_t k = 0; k < times; k++, dy += width, by += width, dby += width)
      for (ptrdiff_t j = 0; j < width; j += VW) {
        const ptrdiff_t count = min(VW, width - j);
        const vec d = get(dy + j, count);
        put(dx + j, v_add(get(dx + j, count), v_mul(d, get(by + j, count))), count);
        put(dby + j, v_mul(d, get(x + j, count)), count);
      }
  }
}
