/*
 * Categorical distributions and quantiles; see distributions.go and, operation by operation,
 * reference_distributions.go. As in losses.h all paths give the same bits.
 */

static TARGET void categorical_means(float *means, const float *x, ptrdiff_t n, ptrdiff_t atoms, double low,
                                     double step) {
  for (ptrdiff_t i = 0; i < n; i++, x += atoms) {
    const vec top = v_set1(largest(x, atoms));
    double sum = 0, weighted = 0;
    for (ptrdiff_t k = 0; k < atoms; k += VW) {
      const ptrdiff_t count = min(VW, atoms - k);
      float e[VW];
      v_store(e, v_exp(v_sub(get(x + k, count), top)));
      for (ptrdiff_t j = 0; j < count; j++) {
        sum += e[j];
        weighted += (double)e[j] * (low + (double)(k + j) * step);
      }
    }
    means[i] = (float)(weighted / sum);
  }
}

static TARGET void project(float *to, const float *x, const int32_t *actions, const float *rewards,
                           const float *discounts, ptrdiff_t n, ptrdiff_t width, ptrdiff_t atoms, double low,
                           double step) {
  const double last = (double)(atoms - 1), high = low + last * step;
  float e[PACELINE_MOST_ATOMS];
  for (ptrdiff_t i = 0; i < n; i++, x += width * atoms, to += atoms) {
    float top;
    const float sum = exponentials_of_row(e, &top, x + actions[i] * atoms, NULL, atoms);
    for (ptrdiff_t k = 0; k < atoms; k++) to[k] = 0;
    for (ptrdiff_t k = 0; k < atoms; k++) {
      double z = rewards[i] + (double)discounts[i] * (low + (double)k * step);
      if (z < low)
        z = low;
      else if (z > high)
        z = high;
      double at = (z - low) / step;
      if (at != at) {
        to[k] = NAN;
        continue;
      }
      at = at < last ? at : last;
      const ptrdiff_t lower = min((ptrdiff_t)at, atoms - 2);
      const float p = e[k] / sum, up = (float)(at - (double)lower);
      to[lower] += p * (1 - up);
      to[lower + 1] += p * up;
    }
  }
}

static TARGET double categorical_loss(const struct paceline_distribution_args *args, float least, int divergence) {
  const struct paceline_distribution_args a = *args;
  const float log_least = logarithm(least);
  double sum = 0;
  for (ptrdiff_t i = 0; i < a.n; i++) {
    const ptrdiff_t row = i * a.width * a.points, at = row + a.actions[i] * a.points;
    const float *x = a.x + at, *m = a.targets + i * a.points;
    float *d = a.dx + at, top;
    for (ptrdiff_t k = 0; k < a.width * a.points; k++) a.dx[row + k] = 0;
    const float total = exponentials_of_row(d, &top, x, NULL, a.points), log_total = logarithm(total);
    double loss = 0, mass = 0, entropy = 0;
    for (ptrdiff_t k = 0; k < a.points; k++) {
      d[k] /= total;
      float log_p = (x[k] - top) - log_total;
      if (d[k] < least)
        log_p = log_least;
      else
        mass += m[k];
      if (!(m[k] < 0x1p-126f)) { /* 0 log 0 is 0, and a denormal counts as 0: its logarithm is -Inf */
        loss -= (double)m[k] * log_p;
        if (divergence) entropy -= (double)m[k] * logarithm(m[k]);
      }
    }
    if (a.per_row != NULL) a.per_row[i] = (float)(loss - entropy);
    const float w = a.weights == NULL ? 1 : a.weights[i];
    const float by = w * a.weight, active = (float)mass;
    for (ptrdiff_t k = 0; k < a.points; k++) {
      const float p = d[k];
      float slope = p * active;
      if (!(p < least)) slope -= m[k];
      d[k] = w == 0 ? 0 : by * slope;
    }
    if (w != 0) sum += (double)w * loss;
  }
  return sum * a.weight;
}

/*
 * The lanes of a vector are quantiles x[j]. Each sums over the targets in their order, so that the
 * bits do not depend on the length of vectors.
 */
static TARGET double quantile_loss(const struct paceline_distribution_args *args, float kappa) {
  const struct paceline_distribution_args a = *args;
  const vec most = v_set1(kappa), least = v_set1(-kappa), half = v_set1(0.5f);
  double sum = 0;
  for (ptrdiff_t i = 0; i < a.n; i++) {
    const ptrdiff_t at = i * a.points * a.width;
    const float *x = a.x + at + a.actions[i], *targets = a.targets + i * a.goals;
    float *d = a.dx + at + a.actions[i];
    const float w = a.weights == NULL ? 1 : a.weights[i], by = w * a.weight / ((float)a.goals * kappa);
    double row = 0;
    for (ptrdiff_t k = 0; k < a.points * a.width; k++) a.dx[at + k] = 0;
    for (ptrdiff_t first = 0; first < a.points; first += VW) {
      const ptrdiff_t count = min(VW, a.points - first);
      float own[VW] = {0}, taus[VW] = {0}, losses[VW], slopes[VW];
      for (ptrdiff_t j = 0; j < count; j++) {
        own[j] = x[(first + j) * a.width];
        taus[j] = a.taus != NULL ? a.taus[i * a.points + first + j] : ((float)(first + j) + 0.5f) / (float)a.points;
      }
      const vec from = v_load(own), tau = v_load(taus), rest = v_sub(v_set1(1), tau);
      vec loss = v_zero(), slope = v_zero();
      for (ptrdiff_t k = 0; k < a.goals; k++) {
        const vec u = v_sub(v_set1(targets[k]), from), side = v_where(u < v_zero(), rest, tau);
        const vec c = v_where(u > most, most, v_where(u < least, least, u));
        slope = v_add(slope, v_mul(side, c));
        loss = v_add(loss, v_mul(side, v_mul(c, v_sub(u, v_mul(half, c)))));
      }
      v_store(losses, loss);
      v_store(slopes, slope);
      for (ptrdiff_t j = 0; j < count; j++) {
        d[(first + j) * a.width] = w == 0 ? 0 : -(slopes[j] * by);
        row += losses[j];
      }
    }
    row /= (double)a.goals * kappa;
    if (a.per_row != NULL) a.per_row[i] = (float)row;
    if (w != 0) sum += (double)w * row;
  }
  return sum * a.weight;
}
