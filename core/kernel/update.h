/*
 * Passes over flat arrays: the optimisers, sums, averages. Each operation is rounded separately,
 * with exact divisions and square roots, so the optimisers give the same bits on every path, and
 * PyTorch's numbers but for the last bits. They multiply the gradient by `factor` first, which
 * clips its norm.
 */

static TARGET void map_add(float *x, const float *y, ptrdiff_t n) {
  for (ptrdiff_t i = 0; i < n; i += VW) {
    ptrdiff_t count = min(VW, n - i);
    put(x + i, v_add(get(x + i, count), get(y + i, count)), count);
  }
}

static TARGET void average(float *x, const float *y, ptrdiff_t n, double weight) {
  const vec vdecay = v_set1((float)(1 - weight)), vweight = v_set1((float)weight);
  for (ptrdiff_t i = 0; i < n; i += VW) {
    ptrdiff_t count = min(VW, n - i);
    put(x + i, v_add(v_mul(vdecay, get(x + i, count)), v_mul(vweight, get(y + i, count))), count);
  }
}

static TARGET void rmsprop(float *theta, const float *grad, float factor, float *avg, float *sq, ptrdiff_t n, float lr,
                           double decay, float eps, int centered, int eps_inside) {
  const vec vfactor = v_set1(factor), vlr = v_set1(lr), veps = v_set1(eps);
  const vec vdecay = v_set1((float)decay), vweight = v_set1((float)(1 - decay));
  for (ptrdiff_t i = 0; i < n; i += VW) {
    ptrdiff_t count = min(VW, n - i);
    vec g = v_mul(vfactor, get(grad + i, count));
    vec v = v_add(v_mul(vdecay, get(sq + i, count)), v_mul(v_mul(vweight, g), g));
    put(sq + i, v, count);
    if (centered) {
      vec mean = v_add(v_mul(vdecay, get(avg + i, count)), v_mul(vweight, g));
      put(avg + i, mean, count);
      v = v_relu(v_sub(v, v_mul(mean, mean)));
    }
    vec root = eps_inside ? v_sqrt(v_add(v, veps)) : v_add(v_sqrt(v), veps);
    put(theta + i, v_sub(get(theta + i, count), v_div(v_mul(vlr, g), root)), count);
  }
}

/* x^n by repeated squaring, for the same bits with every C library. */
static TARGET double power(double x, int64_t n) {
  double p = 1;
  for (; n > 0; n /= 2, x *= x)
    if (n % 2 == 1) p *= x;
  return p;
}

static TARGET void adam(float *theta, const float *grad, float factor, float *m, float *v, ptrdiff_t n, float lr,
                        double beta1, double beta2, float eps, int64_t step) {
  const float size = (float)(lr / (1 - power(beta1, step)));
  const float root = (float)sqrt(1 - power(beta2, step));
  const vec decay1 = v_set1((float)beta1), weight1 = v_set1((float)(1 - beta1));
  const vec decay2 = v_set1((float)beta2), weight2 = v_set1((float)(1 - beta2));
  const vec vfactor = v_set1(factor), veps = v_set1(eps), vsize = v_set1(size), vroot = v_set1(root);
  for (ptrdiff_t i = 0; i < n; i += VW) {
    ptrdiff_t count = min(VW, n - i);
    vec g = v_mul(vfactor, get(grad + i, count));
    vec first = v_add(v_mul(decay1, get(m + i, count)), v_mul(weight1, g));
    vec second = v_add(v_mul(decay2, get(v + i, count)), v_mul(v_mul(weight2, g), g));
    put(m + i, first, count);
    put(v + i, second, count);
    vec under = v_add(v_div(v_sqrt(second), vroot), veps);
    put(theta + i, v_sub(get(theta + i, count), v_div(v_mul(vsize, first), under)), count);
  }
}

/* size and rectified come from rectifiedStep in kernel.go. */
static TARGET void radam(float *theta, const float *grad, float factor, float *m, float *v, ptrdiff_t n, float size,
                         double beta1, double beta2, float eps, int rectified) {
  const vec decay1 = v_set1((float)beta1), weight1 = v_set1((float)(1 - beta1));
  const vec decay2 = v_set1((float)beta2), weight2 = v_set1((float)(1 - beta2));
  const vec vfactor = v_set1(factor), veps = v_set1(eps), vsize = v_set1(size);
  for (ptrdiff_t i = 0; i < n; i += VW) {
    ptrdiff_t count = min(VW, n - i);
    vec g = v_mul(vfactor, get(grad + i, count));
    vec first = v_add(v_mul(decay1, get(m + i, count)), v_mul(weight1, g));
    vec second = v_add(v_mul(decay2, get(v + i, count)), v_mul(v_mul(weight2, g), g));
    put(m + i, first, count);
    put(v + i, second, count);
    vec step = v_mul(vsize, first);
    if (rectified) step = v_div(step, v_add(v_sqrt(second), veps));
    put(theta + i, v_sub(get(theta + i, count), step), count);
  }
}

static TARGET void adagrad(float *theta, const float *grad, float factor, float *sq, ptrdiff_t n, float lr, float eps) {
  const vec vfactor = v_set1(factor), vlr = v_set1(lr), veps = v_set1(eps);
  for (ptrdiff_t i = 0; i < n; i += VW) {
    ptrdiff_t count = min(VW, n - i);
    vec g = v_mul(vfactor, get(grad + i, count));
    vec s = v_add(get(sq + i, count), v_mul(g, g));
    put(sq + i, s, count);
    vec under = v_add(v_sqrt(s), veps);
    put(theta + i, v_sub(get(theta + i, count), v_div(v_mul(vlr, g), under)), count);
  }
}

static TARGET double sum_squares(const float *x, ptrdiff_t n) {
  sums s = sums_zero();
  double part[16];
  ptrdiff_t i = 0;
  for (; i + 16 <= n; i += 16) s = sums_add_squares(s, x + i);
  sums_store(part, s);
  for (ptrdiff_t j = 0; i < n; i++, j++) part[j] += (double)x[i] * x[i];
  for (int half = 8; half > 0; half /= 2)
    for (int j = 0; j < half; j++) part[j] += part[j + half];
  return part[0];
}

#ifndef MULTIPLIES_TILES
enum { PEAK_STEPS = 4 * MR * 2 }; /* vectors of multiply-adds in a round of peak */

/* Multiply-adds on registers, as many at a time as in a tile. The result has no meaning. */
static TARGET float peak(ptrdiff_t rounds) {
  vec acc[MR][2], x = v_set1(1e-30f), sum = v_zero();
  UNROLL
  for (int r = 0; r < MR; r++) { /* all different, or the compiler would compute them once */
    acc[r][0] = v_set1((float)r);
    acc[r][1] = v_set1((float)r + 0.5f);
  }
  for (; rounds > 0; rounds--) {
    UNROLL
    for (int i = 0; i < 4; i++) {
      UNROLL
      for (int r = 0; r < MR; r++) {
        acc[r][0] = v_fma(x, x, acc[r][0]);
        acc[r][1] = v_fma(x, x, acc[r][1]);
      }
    }
    __asm__ volatile("" : "+m"(x)); /* hides from the compiler that x never changes */
  }
  UNROLL
  for (int r = 0; r < MR; r++) sum = v_add(sum, v_add(acc[r][0], acc[r][1]));
  return v_sum(sum);
}
#endif
