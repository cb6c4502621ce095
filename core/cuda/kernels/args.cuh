/*
 * The arguments of the kernels, one struct each. core/cuda/args.go mirrors them field by
 * field (TestArgs compares sizes and offsets), core/cuda/geometry.go fills in what follows
 * from a shape. A pointer that says "or null" may be null; all others are set.
 *
 * No array has 2^31 elements or more: geometry.go refuses the shape.
 */
#pragma once

// Divisor divides numbers of 31 bits by a constant that only the host knows: by a product
// and a shift, as Granlund and Montgomery 1994 show.
struct Divisor {
  unsigned by, magic, shift;
};

// How the k of a product are cut: each warp of a block sums every fourth chunk of its part,
// and each part is summed by blocks of its own (gemm.cuh).
struct Cut {
  int parts;   // 1 or more
  int chunks;  // of a part; the last one may have fewer
};

// ConvShape is core/kernel's Conv, planar, for so many images.
struct ConvShape {
  int images, in_c, in_h, in_w, out_c, out_h, out_w, kernel, stride;
  Divisor positions;  // out_h * out_w
  Divisor width;      // out_w
  Divisor taps;       // kernel * kernel
  Divisor side;       // kernel
  // A kernel is 2 or 3 cells of stride * stride wide; an image, rounded up, cell_h x cell_w.
  int cell_h, cell_w;
  Divisor cells;       // cell_h * cell_w
  Divisor cell_width;  // cell_w
  Divisor cell_taps;   // (kernel / stride) squared
  Divisor cell_side;   // kernel / stride
  Divisor phase;       // stride
};

// y = act(conv(x scale, w) + b)
struct ConvForwardArgs {
  ConvShape shape;
  const void *x;  // float, or bytes where the kernel's name says so
  const float *w, *b;
  float *y;
  float scale;  // of bytes; not read elsewhere
  int relu;
};

// dw and db from x and the gradient of y. With cut.parts above 1 each part goes to parts,
// [parts][weights and biases], for weight_gradient_sum.
struct ConvWeightGradientArgs {
  ConvShape shape;
  const void *x;
  const float *dy;
  const float *y;  // or null: no ReLU
  float *dw, *db;
  float *parts;  // or null
  Cut cut;
  float scale;
};

struct ConvInputGradientArgs {
  ConvShape shape;
  const float *w, *dy;
  const float *y;  // or null: no ReLU
  float *dx;
};

// y = act(x w' + b), x [rows, in], w [out, in]. With cut.parts above 1 each part of the
// sums goes to parts, [parts][rows, out], for dense_forward_sum.
struct DenseForwardArgs {
  int rows, in, out, relu;
  const float *x, *w, *b;
  float *y;
  float *parts;  // or null
  Cut cut;
};

struct DenseForwardSumArgs {
  int rows, out, relu, count;  // count: of the parts
  Divisor width;               // out
  const float *parts, *b;
  float *y;
};

struct DenseWeightGradientArgs {
  int rows, in, out;
  const float *x, *dy;
  const float *y;  // or null: no ReLU
  float *dw, *db;
  float *parts;  // or null
  Cut cut;
};

struct DenseInputGradientArgs {
  int rows, in, out;
  const float *w, *dy;
  const float *y;  // or null: no ReLU
  float *dx;
};

// dw = scale * the sum of the parts' first `weights` numbers, db that of the `biases` behind them.
struct WeightGradientSumArgs {
  int weights, biases, count;
  float scale;
  const float *parts;
  float *dw, *db;
};

// Of kernels in elementwise.cu: what x, y and by are is said there.
struct ElementsArgs {
  long long n;
  const float *x, *y;
  float *to;
  float keep, by;
};

// `words` numbers of 32 bits of minibatch number first + *update go to `to`.
struct SelectArgs {
  long long words, first;
  const long long *update;
  const unsigned *from;
  unsigned *to;
};

// Stack is one observation in an arena of frames: its oldest frame lies in slot first, the
// others behind it, in a ring of `slots` slots from slot base on. The newest `frames` of them
// count, the others are zeros.
struct Stack {
  int first, base, slots, frames;
};

// Row i of `to` is observation stacks[*update * rows + i]; without update, stacks[i].
struct GatherArgs {
  int rows, frames, width;  // frames of an observation, bytes of a frame
  const unsigned char *arena;
  const Stack *stacks;
  const long long *update;  // or null
  unsigned char *to;
};

// Row i of `to` is row index[*update * rows + first + i] of `from`; without update,
// index[first + i]. Rows have `width` bytes.
struct PickArgs {
  long long rows, width, first;
  const int *index;
  const unsigned char *from;
  unsigned char *to;
  const long long *update;  // or null
};

// Step is what an optimiser reads of the update at hand, and what the host reads of those
// done. The host writes it before a window of updates: update, refused and the sums 0, step
// as it is. `advance` works the rest out.
struct Step {
  long long update;           // of the window: how many were applied
  long long step;             // of the optimiser: how many were applied ever
  double loss, norm;          // of this update
  double loss_sum, norm_sum;  // of those applied
  float rate, size, root;     // the learning rate, and what follows from it and the step
  float by;                   // what the gradient is multiplied by
  int rectified;
  int apply;
  int refused;  // 0; 1: a loss was not finite; 2: a norm was not; stays
  int reserved;
};

// max_norm 0: nothing is clipped, and there are no parts. rule 0: rmsprop, adagrad; 1: adam; 2: radam.
struct AdvanceArgs {
  Step *step;
  const double *loss;   // or null
  const double *parts;  // of sum_squares
  const float *rates;   // of the window's updates
  long long first;      // the index in rates of the window's first update
  double *record;       // or null: [updates of the window][2], gets each one's loss and norm
  double max_norm, beta1, beta2;
  int parts_count, rule;
};

// The squares of x are summed up, and the last block does what `advance` does.
struct SumSquaresArgs {
  long long n;
  const float *x;
  double *parts;      // one for every 4096
  unsigned *arrived;  // 0
  AdvanceArgs advance;
};

// first is Adam's and RAdam's m, and the average of the gradient of a centred RMSProp; second
// their v, and the others' running sum of squares. RMSProp's decay is keep2.
struct OptimizerArgs {
  int n, centered, eps_inside;
  float keep1, rest1, keep2, rest2, eps;
  const Step *step;
  const float *grad;
  float *theta, *first, *second;
};

// NormArgs are those of all kernels of norm.cu; each reads what it needs.
struct NormArgs {
  int rows, channels, positions, relu;
  int part_rows;  // rows of a part of the parameters' gradients
  float eps;
  const float *x, *scale, *bias;
  float *y;           // written forward, read backward where relu
  float *statistics;  // [rows][groups][2]: mean and 1 / deviation; or null, forward
  const float *dy;
  float *dx, *dscale, *dbias;
  float *parts;  // [parts][2][params], or null where there is one
};

// Numbers of a block's share of a loss.
const int LOSS_PARTS = 5;

// What the last block of a loss does: it adds up what all blocks, of 128 rows each, have left. parts_of_loss is 1 of td_loss; 5
// of actor_critic: policy, value, entropy, divergence, outside.
struct LossSumArgs {
  int parts_of_loss;
  double entropy_coef, value_coef;
  double *parts;      // [blocks][LOSS_PARTS]; of each the first parts_of_loss are used
  unsigned *arrived;  // 0
  double *loss;       // 1 + parts_of_loss numbers
};

struct TDTargetsArgs {
  int rows, width;
  const float *next;   // [rows][width]
  const int *actions;  // or null: the largest
  const float *rewards, *discounts;
  float *targets;
};

struct ArgmaxArgs {
  int rows, width;
  const float *values;         // [rows][width]
  const unsigned char *masks;  // [rows][width], 0: not allowed; or null: all are allowed
  int *actions;
};

// mean: over the rows' weights; else the sum. scale multiplies the loss.
struct TDLossArgs {
  int rows, width, squared, mean;
  float scale;
  const float *q;  // [rows][width]
  const int *actions;
  const float *targets;
  const float *weights;  // or null: 1 each
  float *dq;
  LossSumArgs sum;
};

// With log_probs it is PPO's loss; without, clips, old_values and value_clips are not read.
struct ActorCriticArgs {
  int rows, width, largest_error;
  float entropy_coef, value_coef;
  const float *logits, *values;
  const int *actions;
  const unsigned char *masks;  // or null: all are allowed
  const float *advantages, *returns, *weights;
  const float *log_probs, *clips, *old_values, *value_clips;
  float *dlogits, *dvalues;
  LossSumArgs sum;
};
