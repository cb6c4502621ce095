/*
 * The optimisers of core/kernel over flat arrays, with the same bits. The values that change from
 * update to update are in a Step in GPU memory, which advance_step computes. So one graph of an
 * update can be replayed many times, and an update with a loss or gradient that is not finite is
 * skipped without the host.
 */
#include "args.cuh"
#include "reduce.cuh"

// x^n in double. The order of the products is that of core/kernel, for the same bits.
__device__ __forceinline__ double power(double x, long long n) {
  double p = 1;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) p *= x;
    x *= x;
  }
  return p;
}

__device__ __forceinline__ bool is_finite(double x) { return x - x == 0; }

// Computes the Step of the current update: whether it is applied, its number, the learning rate
// with its corrections, and the factor that clips the gradient. One block runs this before the
// optimiser.
__device__ __forceinline__ void advance_step(double (&shared)[256], const AdvanceArgs &args) {
  double squares = 0;
  const volatile double *parts = args.parts;
  for (int i = (int)threadIdx.x; i < args.parts_count; i += 256) squares += parts[i];
  squares = block_sum(shared, squares);
  if (threadIdx.x != 0) return;
  Step &s = *args.step;
  const double loss = args.loss == nullptr ? 0 : *args.loss;
  s.loss = loss;
  s.norm = args.max_norm > 0 ? sqrt(squares) : 0;
  s.grad_factor = 1;
  if (args.max_norm > 0) {
    const double by = args.max_norm / (s.norm + 1e-6);
    if (!(by >= 1)) s.grad_factor = (float)by;
  }
  if (args.record != nullptr && s.refused == 0) {
    args.record[2 * s.update] = loss;
    args.record[2 * s.update + 1] = s.norm;
  }
  // A refused update also stops the later updates, which are enqueued already.
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
  if (args.rule != 2) return;  // the rest is RAdam
  const double far = 2 / (1 - args.beta2) - 1, rho = far - 2 * (double)s.step * kept / (1 - kept);
  s.rectified = rho > 5;
  if (s.rectified) {
    const double r = sqrt((rho - 4) * (rho - 2) * far / ((far - 4) * (far - 2) * rho));
    s.size = (float)(by * r * sqrt(1 - kept));
  }
}

KERNEL(advance, AdvanceArgs, 256) {
  __shared__ double shared[256];
  advance_step(shared, args);
}

// parts[b] = the sum of squares of block b's 4096 numbers of x.
KERNEL(sum_squares, SumSquaresArgs, 256) {
  __shared__ double shared[256];
  __shared__ unsigned last[1];
  double sum = 0;
  for (int k = 0; k < 16; k++) {
    const long long i = (long long)blockIdx.x * 4096 + k * 256 + threadIdx.x;
    if (i < args.n) sum += (double)args.x[i] * (double)args.x[i];
  }
  sum = block_sum(shared, sum);
  if (threadIdx.x == 0) args.parts[blockIdx.x] = sum;
  if (is_last_block(last, args.arrived)) advance_step(shared, args.advance);
}

// Applies a rule to each parameter: rule(theta, first, second, gradient). Loads and stores have
// four numbers if all arrays are 16-byte aligned. Without FIRST the rule has no `first` array.
template <bool FIRST, class Rule>
__device__ __forceinline__ void each_parameter(const OptimizerArgs &args, const Rule &rule) {
  if (!args.step->apply) return;
  const float by = args.step->grad_factor;
  const float *__restrict__ grad = args.grad;
  float *__restrict__ theta = args.theta;
  float *__restrict__ first = args.first;
  float *__restrict__ second = args.second;
  float none = 0;
  const unsigned long long all = (unsigned long long)grad | (unsigned long long)theta | (unsigned long long)second |
                                 (FIRST ? (unsigned long long)first : 0);
  const int fours = all % 16 == 0 ? args.n / 4 : 0;
  for (int i = first_element(); i < fours; i += element_step()) {
    const float4 g = ((const float4 *)grad)[i];
    float4 t = ((float4 *)theta)[i], s = ((float4 *)second)[i], f = {0, 0, 0, 0};
    if (FIRST) f = ((float4 *)first)[i];
    rule(t.x, f.x, s.x, by * g.x);
    rule(t.y, f.y, s.y, by * g.y);
    rule(t.z, f.z, s.z, by * g.z);
    rule(t.w, f.w, s.w, by * g.w);
    ((float4 *)theta)[i] = t;
    ((float4 *)second)[i] = s;
    if (FIRST) ((float4 *)first)[i] = f;
  }
  for (int i = 4 * fours + first_element(); i < args.n; i += element_step())
    rule(theta[i], FIRST ? first[i] : none, second[i], by * grad[i]);
}

struct RMSProp {
  const OptimizerArgs &args;
  float rate;
  __device__ __forceinline__ void operator()(float &theta, float &avg, float &sq, float g) const {
    sq = args.decay2 * sq + args.weight2 * g * g;
    float v = sq;
    if (args.centered) {
      avg = args.decay2 * avg + args.weight2 * g;
      v -= avg * avg;
      if (v < 0) v = 0;  // a variance can be negative by rounding only
    }
    v = args.eps_inside ? sqrtf(v + args.eps) : sqrtf(v) + args.eps;
    theta -= rate * g / v;
  }
};

KERNEL(rmsprop, OptimizerArgs, 256) {
  const RMSProp rule = {args, args.step->rate};
  if (args.centered)
    each_parameter<true>(args, rule);
  else
    each_parameter<false>(args, rule);
}

struct Adam {
  const OptimizerArgs &args;
  float size, root;
  __device__ __forceinline__ void operator()(float &theta, float &m, float &v, float g) const {
    m = args.decay1 * m + args.weight1 * g;
    v = args.decay2 * v + args.weight2 * g * g;
    theta -= size * m / (sqrtf(v) / root + args.eps);
  }
};

KERNEL(adam, OptimizerArgs, 256) { each_parameter<true>(args, Adam{args, args.step->size, args.step->root}); }

struct RAdam {
  const OptimizerArgs &args;
  float size;
  bool rectified;
  __device__ __forceinline__ void operator()(float &theta, float &m, float &v, float g) const {
    m = args.decay1 * m + args.weight1 * g;
    v = args.decay2 * v + args.weight2 * g * g;
    float step = size * m;
    if (rectified) step /= sqrtf(v) + args.eps;
    theta -= step;
  }
};

KERNEL(radam, OptimizerArgs, 256) {
  each_parameter<true>(args, RAdam{args, args.step->size, args.step->rectified != 0});
}

struct AdaGrad {
  const OptimizerArgs &args;
  float rate;
  __device__ __forceinline__ void operator()(float &theta, float &, float &sq, float g) const {
    sq = sq + g * g;
    theta -= rate * g / (sqrtf(sq) + args.eps);
  }
};

KERNEL(adagrad, OptimizerArgs, 256) { each_parameter<false>(args, AdaGrad{args, args.step->rate}); }
