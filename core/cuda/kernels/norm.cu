/*
 * Layer normalisation in both forms of core/kernel's Norm, planar. norm_rows_* normalises a whole
 * row [channel][position] (a dense layer has one position), with a block per row. norm_positions_*
 * normalises over the channels at each position, with a thread per position, so that adjacent
 * threads read adjacent numbers.
 *
 * With hat = (x - mean) by, by = 1 / deviation, e = dy where y > 0 (ReLU) and g = e scale,
 *
 *	dx = by (g - mean(g) - hat mean(g hat)),  dscale = sum of e hat,  dbias = sum of e
 *
 * dscale and dbias are sums over rows. A constant splits the sums into parts (geometry.go), and
 * weight_gradient_sum adds up the parts if there are several.
 */
#include "args.cuh"
#include "reduce.cuh"

__device__ __forceinline__ float masked_dy(const NormArgs &args, long long at) {
  return !args.relu || args.y[at] > 0 ? args.dy[at] : 0;
}

__device__ __forceinline__ float normalised(const NormArgs &args, float hat, int param) {
  const float y = hat * args.scale[param] + args.bias[param];
  return args.relu ? relu(y) : y;
}

KERNEL(norm_rows_forward, NormArgs, 256) {
  __shared__ float shared[256];
  const int length = args.channels * args.positions, thread = (int)threadIdx.x;
  const long long first = (long long)blockIdx.x * length;
  float sum = 0;
  for (int k = thread; k < length; k += 256) sum += args.x[first + k];
  const float mean = block_sum(shared, sum) / (float)length;
  sum = 0;
  for (int k = thread; k < length; k += 256) {
    const float d = args.x[first + k] - mean;
    sum += d * d;
  }
  const float by = 1 / sqrtf(block_sum(shared, sum) / (float)length + args.eps);
  if (thread == 0 && args.statistics != nullptr) {
    args.statistics[2 * blockIdx.x] = mean;
    args.statistics[2 * blockIdx.x + 1] = by;
  }
  for (int k = thread; k < length; k += 256) args.y[first + k] = normalised(args, (args.x[first + k] - mean) * by, k);
}

KERNEL(norm_rows_input_gradient, NormArgs, 256) {
  __shared__ float shared[256];
  const int length = args.channels * args.positions, thread = (int)threadIdx.x;
  const long long first = (long long)blockIdx.x * length;
  const float mean = args.statistics[2 * blockIdx.x], by = args.statistics[2 * blockIdx.x + 1];
  float of_g = 0, of_gh = 0;
  for (int k = thread; k < length; k += 256) {
    const float g = masked_dy(args, first + k) * args.scale[k];
    of_g += g;
    of_gh += g * ((args.x[first + k] - mean) * by);
  }
  of_g = block_sum(shared, of_g) / (float)length;
  of_gh = block_sum(shared, of_gh) / (float)length;
  for (int k = thread; k < length; k += 256) {
    const float g = masked_dy(args, first + k) * args.scale[k], hat = (args.x[first + k] - mean) * by;
    args.dx[first + k] = by * ((g - of_g) - hat * of_gh);
  }
}

// NormPart is a part of the rows. Its gradients go to dscale and dbias, or to args.parts.
struct NormPart {
  float *dscale, *dbias;
  int first, last;  // rows, last excluded
  __device__ __forceinline__ NormPart(const NormArgs &args, int part, int params)
      : dscale(args.dscale), dbias(args.dbias), first(part * args.part_rows),
        last(min(args.rows, first + args.part_rows)) {
    if (args.parts == nullptr) return;
    dscale = args.parts + (long long)part * 2 * params;
    dbias = dscale + params;
  }
};

// A thread per parameter.
KERNEL(norm_rows_parameter_gradient, NormArgs, 128) {
  const int length = args.channels * args.positions, k = (int)(blockIdx.x * 128 + threadIdx.x);
  if (k >= length) return;
  const NormPart part(args, (int)blockIdx.y, length);
  float dscale = 0, dbias = 0;
  for (int row = part.first; row < part.last; row++) {
    const long long at = (long long)row * length + k;
    const float e = masked_dy(args, at), hat = (args.x[at] - args.statistics[2 * row]) * args.statistics[2 * row + 1];
    dbias += e;
    dscale += e * hat;
  }
  part.dscale[k] = dscale;
  part.dbias[k] = dbias;
}

KERNEL(norm_positions_forward, NormArgs, 128) {
  const int i = (int)(blockIdx.x * 128 + threadIdx.x), row = i / args.positions;
  if (i >= args.rows * args.positions) return;
  const long long first = (long long)row * args.channels * args.positions + (i - row * args.positions);
  float sum = 0;
  for (int c = 0; c < args.channels; c++) sum += args.x[first + (long long)c * args.positions];
  const float mean = sum / (float)args.channels;
  sum = 0;
  for (int c = 0; c < args.channels; c++) {
    const float d = args.x[first + (long long)c * args.positions] - mean;
    sum += d * d;
  }
  const float by = 1 / sqrtf(sum / (float)args.channels + args.eps);
  if (args.statistics != nullptr) {
    args.statistics[2 * i] = mean;
    args.statistics[2 * i + 1] = by;
  }
  for (int c = 0; c < args.channels; c++) {
    const long long at = first + (long long)c * args.positions;
    args.y[at] = normalised(args, (args.x[at] - mean) * by, c);
  }
}

KERNEL(norm_positions_input_gradient, NormArgs, 128) {
  const int i = (int)(blockIdx.x * 128 + threadIdx.x), row = i / args.positions;
  if (i >= args.rows * args.positions) return;
  const long long first = (long long)row * args.channels * args.positions + (i - row * args.positions);
  const float mean = args.statistics[2 * i], by = args.statistics[2 * i + 1];
  float of_g = 0, of_gh = 0;
  for (int c = 0; c < args.channels; c++) {
    const long long at = first + (long long)c * args.positions;
    const float g = masked_dy(args, at) * args.scale[c];
    of_g += g;
    of_gh += g * ((args.x[at] - mean) * by);
  }
  of_g /= (float)args.channels;
  of_gh /= (float)args.channels;
  for (int c = 0; c < args.channels; c++) {
    const long long at = first + (long long)c * args.positions;
    const float g = masked_dy(args, at) * args.scale[c], hat = (args.x[at] - mean) * by;
    args.dx[at] = by * ((g - of_g) - hat * of_gh);
  }
}

// A block per channel.
KERNEL(norm_positions_parameter_gradient, NormArgs, 128) {
  __shared__ float shared[128];
  const int channel = (int)blockIdx.x, positions = args.positions;
  const NormPart part(args, (int)blockIdx.y, args.channels);
  float dscale = 0, dbias = 0;
  for (int i = part.first * positions + (int)threadIdx.x; i < part.last * positions; i += 128) {
    const int row = i / positions;
    const long long at = ((long long)row * args.channels + channel) * positions + (i - row * positions);
    const float e = masked_dy(args, at), hat = (args.x[at] - args.statistics[2 * i]) * args.statistics[2 * i + 1];
    dbias += e;
    dscale += e * hat;
  }
  dscale = block_sum(shared, dscale);
  dbias = block_sum(shared, dbias);
  if (threadIdx.x != 0) return;
  part.dscale[channel] = dscale;
  part.dbias[channel] = dbias;
}
