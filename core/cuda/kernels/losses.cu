/*
 * The losses of core/kernel/losses.h and their gradients. A thread computes a row. The terms of a
 * loss are summed in double: within blocks of 128 rows, then over the blocks in order, by the last
 * block that finishes. So a loss may differ from core/kernel's in its last bits. A row's gradient
 * differs only through the sum of the weights. The host has checked the actions against their
 * number and the masks.
 */
#include "args.cuh"
#include "math.cuh"
#include "reduce.cuh"

const int LOSS_ROWS = 128;  // per block

// The largest value of a row. If the row has a NaN, the result is NaN.
__device__ __forceinline__ float largest(const float *x, int width) {
  float best = x[0];
  for (int a = 1; a < width; a++)
    if (x[a] > best || x[a] != x[a]) best = x[a];
  return best;
}

// targets = rewards + discounts * next: the value of the given action, or the largest value.
KERNEL(td_targets, TDTargetsArgs, 128) {
  const int i = (int)(blockIdx.x * 128 + threadIdx.x);
  if (i >= args.rows) return;
  const float *next = args.next + (long long)i * args.width;
  const float value = args.actions == nullptr ? largest(next, args.width) : next[args.actions[i]];
  args.targets[i] = args.rewards[i] + args.discounts[i] * value;
}

// a > b, also for denormals, which float comparisons flush to zero. The bits of the magnitudes have
// the order of the numbers.
__device__ __forceinline__ bool above(float a, float b) {
  const int x = (int)__float_as_uint(a), y = (int)__float_as_uint(b);
  const int most = 0x7FFFFFFF, infinity = 0x7F800000;
  if ((x & most) > infinity || (y & most) > infinity) return false;  // NaN
  return (x < 0 ? -(x & most) : x) > (y < 0 ? -(y & most) : y);
}

// The first index of the largest allowed value, -1 if the mask allows none, as core/nn's Argmax.
// NaN wins if it is the first allowed value, and otherwise never.
KERNEL(argmax, ArgmaxArgs, LOSS_ROWS) {
  const int i = (int)(blockIdx.x * LOSS_ROWS + threadIdx.x), width = args.width;
  if (i >= args.rows) return;
  const float *values = args.values + (long long)i * width;
  const unsigned char *mask = args.masks == nullptr ? nullptr : args.masks + (long long)i * width;
  int best = -1;
  float top = 0;
  for (int a = 0; a < width; a++) {
    if ((mask == nullptr || mask[a]) && (best < 0 || above(values[a], top))) {
      best = a;
      top = values[a];
    }
  }
  args.actions[i] = best;
}

// The sum of the weights of all rows, which every block computes. Without weights each row has 1.
__device__ __forceinline__ double sum_of_weights(double (&shared)[LOSS_ROWS], const float *weights, int rows) {
  if (weights == nullptr) return rows;
  double sum = 0;
  for (int i = (int)threadIdx.x; i < rows; i += LOSS_ROWS) sum += weights[i];
  return block_sum(shared, sum);
}

// loss[0] = the loss, loss[1 + p] = term p. The last block sums the blocks' terms in block order.
__device__ __forceinline__ void sum_of_blocks(double (&terms)[LOSS_TERMS], const LossSumArgs &args) {
  const int p = (int)threadIdx.x;
  if (p < args.terms) {
    const volatile double *from = args.parts;
    double sum = 0;
    for (int b = 0; b < (int)gridDim.x; b++) sum += from[b * LOSS_TERMS + p];
    args.loss[1 + p] = terms[p] = sum;
  }
  __syncthreads();
  if (p != 0) return;
  args.loss[0] = args.terms == 1 ? terms[0] : terms[0] - args.entropy_coef * terms[2] + args.value_coef * terms[1];
}

KERNEL(td_loss, TDLossArgs, LOSS_ROWS) {
  __shared__ double shared[LOSS_ROWS], terms[LOSS_TERMS];
  __shared__ unsigned last[1];
  const int i = (int)(blockIdx.x * LOSS_ROWS + threadIdx.x);
  float weight = args.scale;
  if (args.mean) {
    const double total = sum_of_weights(shared, args.importance ? nullptr : args.weights, args.rows);
    weight = total == 0 ? 0 : args.scale / (float)total;
  }
  double loss = 0;
  if (i < args.rows) {
    const float *q = args.q + (long long)i * args.width;
    float *dq = args.dq + (long long)i * args.width;
    const int action = args.actions[i];
    const float error = q[action] - args.targets[i];
    const float of_row = args.weights == nullptr ? 1 : args.weights[i];
    const float d = args.importance > IMPORTANCE_LOSS ? of_row * error : error;
    float value, slope;
    if (args.squared) {
      value = d * d;
      slope = 2 * d;
    } else if (d >= 1) {
      value = d - 0.5f;
      slope = 1;
    } else if (d <= -1) {
      value = -d - 0.5f;
      slope = -1;
    } else {  // NaN, too
      value = 0.5f * d * d;
      slope = d;
    }
    for (int a = 0; a < args.width; a++) dq[a] = 0;
    float *errors = args.errors + (args.update == nullptr ? 0 : *args.update * args.rows);
    errors[i] = error <= 0 ? 0 - error : error;  // 0 for both zeros
    if (of_row != 0) {
      if (args.importance == IMPORTANCE_GRADIENT) {
        value = 0.5f * error * error * of_row;
      } else {
        slope *= of_row;
        if (args.importance != IMPORTANCE_ERROR) value *= of_row;
      }
      dq[action] = slope * weight;
      loss = value;
    }
  }
  loss = block_sum(shared, loss);
  if (threadIdx.x == 0) args.sum.parts[blockIdx.x * LOSS_TERMS] = loss * weight;
  if (is_last_block(last, args.sum.arrived)) sum_of_blocks(terms, args.sum);
}

// e[a] = exp(x[a] - top) for the allowed a, 0 for the others. top is the largest allowed x. Returns
// the sum of e. Without a mask every a is allowed.
__device__ __forceinline__ float exponentials_of_row(float *e, float &top, const float *x, const unsigned char *mask,
                                                     int width) {
  int first = 0;
  while (mask != nullptr && first < width - 1 && !mask[first]) first++;
  top = x[first];
  for (int a = first + 1; a < width; a++)
    if ((mask == nullptr || mask[a]) && (x[a] > top || x[a] != x[a])) top = x[a];
  double sum = 0;
  for (int a = 0; a < width; a++) {
    e[a] = mask == nullptr || mask[a] ? exponential(x[a] - top) : 0;
    sum += e[a];
  }
  return (float)sum;
}

// Computes the squared error of a value and returns half of its slope. PPO clips the value to
// within `clip` of the old value.
__device__ __forceinline__ float value_error(double &squared, const ActorCriticArgs &args, int i) {
  const float value = args.values[i], target = args.returns[i], error = value - target;
  squared = (double)error * error;
  if (args.log_probs == nullptr) return error;
  const float old = args.old_values[i], clip = args.value_clips[i];
  if (!(value - old > clip) && !(value - old < -clip)) return error;
  const float moved = value > old ? old + clip : old - clip, clipped = moved - target;
  const double other = (double)clipped * clipped;
  if (args.largest_error && squared >= other) return error;
  squared = other;
  return 0;  // moved does not depend on the value
}

// Sets the row's policy terms. Returns the derivative of the row's loss with respect to -log_prob.
__device__ __forceinline__ float policy_slope(double (&terms)[LOSS_TERMS], const ActorCriticArgs &args, int i,
                                              double weight, float log_prob) {
  const float advantage = args.advantages[i];
  if (args.log_probs == nullptr) {
    terms[0] = weight * ((double)advantage * -(double)log_prob);
    return advantage;
  }
  const float log_ratio = log_prob - args.log_probs[i], ratio = exponential(log_ratio), clip = args.clips[i];
  const float inside = ratio > 1 + clip ? 1 + clip : ratio < 1 - clip ? 1 - clip : ratio;
  const float free = advantage * ratio, clipped = advantage * inside;
  terms[0] = -weight * (clipped < free ? clipped : free);
  terms[3] = weight * ((ratio - 1) - log_ratio);
  terms[4] = ratio - 1 > clip || 1 - ratio > clip ? weight : 0;
  return clipped < free ? 0 : free;
}

// Overwrites d, the exponentials of a branch, with the gradient of its logits x. Returns the
// branch's entropy.
__device__ __forceinline__ double branch_gradient(float *d, const float *x, int width, float top, float sum,
                                                  float log_sum, int action, float slope, float by,
                                                  float entropy_coef) {
  double entropy = 0;
  for (int a = 0; a < width; a++) {
    const float p = d[a] / sum;
    if (p != 0) entropy -= (double)p * (double)((x[a] - top) - log_sum);  // 0 log 0 is 0
  }
  const float of_branch = (float)entropy;
  for (int a = 0; a < width; a++) {
    const float p = d[a] / sum, log_p = (x[a] - top) - log_sum, chosen = action == a ? 1 : 0;
    const float of_entropy = p != 0 ? entropy_coef * (p * (log_p + of_branch)) : 0;
    d[a] = by * (slope * (p - chosen) + of_entropy);
  }
  return entropy;
}

// The sum of the exponentials of a branch in float, as in core/kernel's Regulariser.
__device__ __forceinline__ float sum_of_row(const float *e, int width) {
  float sum = 0;
  for (int a = 0; a < width; a++) sum += e[a];
  return sum;
}

// The logarithm of a probability with the regulariser.
__device__ __forceinline__ float regularised_log(const ActorCriticArgs &args, float p) {
  if (args.regulariser == REGULARISER_PLUS) return logarithm(p + args.log_eps);
  return logarithm(p < args.log_eps ? args.log_eps : p);
}

// The regularised logarithm of the probability of a choice, from the exponentials of its branch.
__device__ __forceinline__ float regularised_chosen(const ActorCriticArgs &args, const float *e, int width,
                                                    int action) {
  return regularised_log(args, e[action] / sum_of_row(e, width));
}

// The derivative of a row's loss with respect to the probability p of a choice, without the share of
// the row. With "plus" it lacks a term that is the same for all choices, which softmax takes away.
// factor is what the entropy multiplies with the logarithm.
__device__ __forceinline__ float regularised_slope(float &log_p, float &factor, const ActorCriticArgs &args, float p,
                                                   bool chosen, float advantage) {
  const bool plus = args.regulariser == REGULARISER_PLUS, above_eps = p >= args.log_eps;
  log_p = regularised_log(args, p);
  factor = plus ? p + args.log_eps : p;
  const float of_entropy = args.entropy_coef * (!plus && above_eps ? log_p + 1 : log_p);
  return chosen && (plus || above_eps) ? of_entropy - advantage / factor : of_entropy;
}

// branch_gradient with the regulariser, in the operations of core/kernel's: d has the exponentials.
__device__ __forceinline__ double regularised_gradient(float *d, const ActorCriticArgs &args, const unsigned char *mask,
                                                       int width, int action, float advantage, float by) {
  double entropy = 0;
  float log_p, factor, mean = 0;
  const float sum = sum_of_row(d, width);
  for (int a = 0; a < width; a++) {
    d[a] /= sum;
    if (mask != nullptr && !mask[a]) continue;
    const float slope = regularised_slope(log_p, factor, args, d[a], action == a, advantage);
    entropy -= (double)factor * (double)log_p;
    mean += d[a] * slope;
  }
  for (int a = 0; a < width; a++) {
    if (mask == nullptr || mask[a])
      d[a] = by * (d[a] * (regularised_slope(log_p, factor, args, d[a], action == a, advantage) - mean));
  }
  return entropy;
}

// Sets the row's gradient of the value and the terms of value and entropy.
__device__ __forceinline__ void value_gradient(double (&terms)[LOSS_TERMS], const ActorCriticArgs &args, int i,
                                               double weight, float by, double entropy) {
  double squared;
  const float error = value_error(squared, args, i);
  args.dvalues[i] = by * (2 * args.value_coef * error);
  terms[1] = weight * squared;
  terms[2] = weight * entropy;
}

// The gradients and loss terms of a row with a weight above 0.
__device__ __forceinline__ void actor_critic_row(double (&terms)[LOSS_TERMS], const ActorCriticArgs &args, int i,
                                                 double share) {
  const int width = args.width, action = args.actions[i];
  const float *logits = args.logits + (long long)i * width;
  float *dlogits = args.dlogits + (long long)i * width;
  const unsigned char *mask = args.masks == nullptr ? nullptr : args.masks + (long long)i * width;
  const double weight = args.weights[i];
  const float by = (float)(weight * share);
  float top;
  const float sum = exponentials_of_row(dlogits, top, logits, mask, width);
  double entropy;
  if (args.regulariser == NO_REGULARISER) {
    const float log_sum = logarithm(sum);
    const float slope = policy_slope(terms, args, i, weight, (logits[action] - top) - log_sum);
    entropy = branch_gradient(dlogits, logits, width, top, sum, log_sum, action, slope, by, args.entropy_coef);
  } else {
    const float slope = policy_slope(terms, args, i, weight, regularised_chosen(args, dlogits, width, action));
    entropy = regularised_gradient(dlogits, args, mask, width, action, slope, by);
  }
  value_gradient(terms, args, i, weight, by, entropy);
}

// The block's sums of the terms, and the loss by the last block. Returns whether this is the last
// block.
__device__ __forceinline__ bool actor_critic_sums(double (&shared)[LOSS_ROWS], double (&of_loss)[LOSS_TERMS],
                                                  unsigned (&last)[1], const double (&terms)[LOSS_TERMS],
                                                  const LossSumArgs &args, double share) {
  UNROLL
  for (int p = 0; p < LOSS_TERMS; p++) {
    const double sum = block_sum(shared, terms[p]);
    if (threadIdx.x == 0) args.parts[blockIdx.x * LOSS_TERMS + p] = sum * share;
  }
  const bool is_last = is_last_block(last, args.arrived);
  if (is_last) sum_of_blocks(of_loss, args);
  return is_last;
}

KERNEL(actor_critic, ActorCriticArgs, LOSS_ROWS) {
  __shared__ double shared[LOSS_ROWS], of_loss[LOSS_TERMS];
  __shared__ unsigned last[1];
  const int i = (int)(blockIdx.x * LOSS_ROWS + threadIdx.x);
  const double total = sum_of_weights(shared, args.weights, args.rows), share = total != 0 ? 1 / total : 0;
  double terms[LOSS_TERMS] = {0, 0, 0, 0, 0};
  if (i < args.rows) {
    if (args.weights[i] != 0) {
      actor_critic_row(terms, args, i, share);
    } else {
      args.dvalues[i] = 0;
      for (int a = 0; a < args.width; a++) args.dlogits[(long long)i * args.width + a] = 0;
    }
  }
  actor_critic_sums(shared, of_loss, last, terms, args.sum, share);
}

// How many standard deviations number k of row i is from its mean, and 1 / standard deviation.
__device__ __forceinline__ float deviations(float &inverse, const ActorCriticProductArgs &args, int i, int k) {
  const long long at = (long long)i * args.size + k;
  inverse = exponential(-args.log_std[k]);
  return (args.continuous[at] - args.means[at]) * inverse;
}

// The gradients and loss terms of a row with a weight above 0. Returns the derivative of the row's
// loss with respect to -log_prob.
__device__ __forceinline__ float actor_critic_product_row(double (&terms)[LOSS_TERMS],
                                                          const ActorCriticProductArgs &args, int i, double share) {
  const ActorCriticArgs &loss = args.loss;
  const int width = loss.width, size = args.size, *actions = loss.actions + (long long)i * args.branches_count;
  const float *logits = loss.logits + (long long)i * width;
  float *dlogits = loss.dlogits + (long long)i * width;
  const unsigned char *mask = loss.masks == nullptr ? nullptr : loss.masks + (long long)i * width;
  const double weight = loss.weights[i];
  const float by = (float)(weight * share);
  float top, inverse, log_prob = 0;
  for (int b = 0, at = 0; b < args.branches_count; at += args.branches[b++]) {
    const float sum =
        exponentials_of_row(dlogits + at, top, logits + at, mask == nullptr ? mask : mask + at, args.branches[b]);
    log_prob += loss.regulariser == NO_REGULARISER
                    ? (logits[at + actions[b]] - top) - logarithm(sum)
                    : regularised_chosen(loss, dlogits + at, args.branches[b], actions[b]);
  }
  double entropy = 0;
  for (int k = 0; k < size; k++) {
    const float z = deviations(inverse, args, i, k);
    log_prob += (-0.5f * (z * z) - args.log_std[k]) + -0x1.d67f1cp-1f;  // -log sqrt(2 pi)
    entropy += args.log_std[k] + 0x1.6b3f8e4325f5ap+0;                  // of a standard deviation of 1
  }
  const float slope = policy_slope(terms, loss, i, weight, log_prob);
  for (int b = 0, at = 0; b < args.branches_count; at += args.branches[b++]) {
    const int of_branch = args.branches[b];
    const float sum =
        exponentials_of_row(dlogits + at, top, logits + at, mask == nullptr ? mask : mask + at, of_branch);
    if (loss.regulariser == NO_REGULARISER)
      entropy += branch_gradient(dlogits + at, logits + at, of_branch, top, sum, logarithm(sum), actions[b], slope, by,
                                 loss.entropy_coef);
    else
      entropy += regularised_gradient(dlogits + at, loss, mask == nullptr ? mask : mask + at, of_branch, actions[b],
                                      slope, by);
  }
  for (int k = 0; k < size; k++) {
    const float z = deviations(inverse, args, i, k);
    args.dmeans[(long long)i * size + k] = by * (slope * -(z * inverse));
  }
  value_gradient(terms, loss, i, weight, by, entropy);
  return slope;
}

// The gradients of log_std are summed as the terms are: within blocks, then over the blocks.
KERNEL(actor_critic_product, ActorCriticProductArgs, LOSS_ROWS) {
  __shared__ double shared[LOSS_ROWS], of_loss[LOSS_TERMS];
  __shared__ unsigned last[1];
  const ActorCriticArgs &loss = args.loss;
  const int i = (int)(blockIdx.x * LOSS_ROWS + threadIdx.x), size = args.size;
  const double total = sum_of_weights(shared, loss.weights, loss.rows), share = total != 0 ? 1 / total : 0;
  double terms[LOSS_TERMS] = {0, 0, 0, 0, 0};
  const bool counts = i < loss.rows && loss.weights[i] != 0;
  float slope = 0;
  if (counts) {
    slope = actor_critic_product_row(terms, args, i, share);
  } else if (i < loss.rows) {
    loss.dvalues[i] = 0;
    for (int a = 0; a < loss.width; a++) loss.dlogits[(long long)i * loss.width + a] = 0;
    for (int k = 0; k < size; k++) args.dmeans[(long long)i * size + k] = 0;
  }
  for (int k = 0; k < size; k++) {
    double of_row = 0;
    if (counts) {
      float inverse;
      const float z = deviations(inverse, args, i, k);
      of_row = (float)(loss.weights[i] * share) * (slope * (1 - z * z) - loss.entropy_coef);
    }
    const double sum = block_sum(shared, of_row);
    if (threadIdx.x == 0) args.log_std_parts[(long long)blockIdx.x * size + k] = sum;
  }
  if (!actor_critic_sums(shared, of_loss, last, terms, loss.sum, share)) return;
  const volatile double *parts = args.log_std_parts;
  for (int k = (int)threadIdx.x; k < size; k += LOSS_ROWS) {
    double sum = 0;
    for (int b = 0; b < (int)gridDim.x; b++) sum += parts[(long long)b * size + k];
    args.dlog_std[k] = (float)sum;
  }
}
