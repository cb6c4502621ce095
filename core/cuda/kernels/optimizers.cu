/*
 * The optimisers of core/kernel, to the same bits, over flat arrays. What changes from step
 * to step lies in a Step on the device, which `advance` works out: so a graph of a whole
 * update can be launched again and again, and an update whose loss or gradient is not
 * finite applies nothing, without the host in between.
 */
#include "args.cuh"
#include "reduce.cuh"

// In double, like core/kernel's; the order of the products is its own, for the same bits.
__device__ __forceinline__ double power(double x, long long n) {
  double p = 1;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) p *= x;
    x *= x;
  }
  return p;
}

// parts[b] = the sum of squares of block b's 4096 numbers of x.
KERNEL(sum_squares, SumSquaresArgs, 256) {
  __shared__ double shared[256];
  double sum = 0;
  for (int k = 0; k < 16; k++) {
    const long long i = (long long)blockIdx.x * 4096 + k * 256 + threadIdx.x;
    if (i < args.n) sum += (double)args.x[i] * (double)args.x[i];
  }
  sum = block_sum(shared, sum);
  if (threadIdx.x == 0) args.parts[blockIdx.x] = sum;
}

__device__ __forceinline__ bool is_finite(double x) { return x - x == 0; }

/*
 * Works the next step out: whether it is applied, its number, its learning rate and
 * corrections, and the factor that clips the gradient. Runs before the optimiser of each
 * update, in one block.
 */
KERNEL(advance, AdvanceArgs, 256) {
  __shared__ double shared[256];
  double squares = 0;
  for (int i = (int)threadIdx.x; i < args.parts_count; i += 256) squares += args.parts[i];
  squares = block_sum(shared, squares);
  if (threadIdx.x != 0) return;
  Step &s = *args.step;
  const double loss = args.loss == nullptr ? 0 : *args.loss;
  s.loss = loss;
  s.norm = args.max_norm > 0 ? sqrt(squares) : 0;
  s.by = 1;
  if (args.max_norm > 0) {
    const double by = args.max_norm / (s.norm + 1e-6);
    if (!(by >= 1)) s.by = (float)by;
  }
  if (args.record != nullptr && s.refused == 0) {
    args.record[2 * s.update] = loss;
    args.record[2 * s.update + 1] = s.norm;
  }
  // The first update that is refused stops those behind it, which are enqueued already.
  if (s.refused == 0 && !is_finite(loss)) s.refused = 1;
  if (s.refused == 0 && !is_finite(s.norm)) s.refused = 2;
  s.apply = s.refused == 0;
  if (!s.apply) return;
  const float rate = args.rates[args.first + s.update];
  s.update++;
  s.step++;
  s.loss_sum += loss;
  s.norm_sum += s.norm;
  s.rate = rate;
  if (args.rule == 0) return;
  const double kept = power(args.beta2, s.step), by = (double)rate / (1 - power(args.beta1, s.step));
  s.size = (float)by;
  s.root = (float)sqrt(1 - kept);
  if (args.rule != 2) return;  // what follows is RAdam's
  const double far = 2 / (1 - args.beta2) - 1, rho = far - 2 * (double)s.step * kept / (1 - kept);
  s.rectified = rho > 5;
  if (s.rectified) {
    const double r = sqrt((rho - 4) * (rho - 2) * far / ((far - 4) * (far - 2) * rho));
    s.size = (float)(by * r * sqrt(1 - kept));
  }
}

#define EACH_PARAMETER            \
  if (!args.step->apply) return;  \
  const float by = args.step->by; \
  for (int i = first_element(); i < args.n; i += element_step())

KERNEL(rmsprop, OptimizerArgs, 256) {
  const float rate = args.step->rate;
  EACH_PARAMETER {
    const float g = by * args.grad[i], sq = args.keep2 * args.second[i] + args.rest2 * g * g;
    args.second[i] = sq;
    float v = sq;
    if (args.centered) {
      const float avg = args.keep2 * args.first[i] + args.rest2 * g;
      args.first[i] = avg;
      v -= avg * avg;
      if (v < 0) v = 0;  // a variance, but for rounding
    }
    v = args.eps_inside ? sqrtf(v + args.eps) : sqrtf(v) + args.eps;
    args.theta[i] -= rate * g / v;
  }
}

KERNEL(adam, OptimizerArgs, 256) {
  const float size = args.step->size, root = args.step->root;
  EACH_PARAMETER {
    const float g = by * args.grad[i];
    const float m = args.keep1 * args.first[i] + args.rest1 * g, v = args.keep2 * args.second[i] + args.rest2 * g * g;
    args.first[i] = m;
    args.second[i] = v;
    args.theta[i] -= size * m / (sqrtf(v) / root + args.eps);
  }
}

KERNEL(radam, OptimizerArgs, 256) {
  const float size = args.step->size;
  const bool rectified = args.step->rectified;
  EACH_PARAMETER {
    const float g = by * args.grad[i];
    const float m = args.keep1 * args.first[i] + args.rest1 * g, v = args.keep2 * args.second[i] + args.rest2 * g * g;
    args.first[i] = m;
    args.second[i] = v;
    float step = size * m;
    if (rectified) step /= sqrtf(v) + args.eps;
    args.theta[i] -= step;
  }
}

KERNEL(adagrad, OptimizerArgs, 256) {
  const float rate = args.step->rate;
  EACH_PARAMETER {
    const float g = by * args.grad[i], sq = args.second[i] + g * g;
    args.second[i] = sq;
    args.theta[i] -= rate * g / (sqrtf(sq) + args.eps);
  }
}
