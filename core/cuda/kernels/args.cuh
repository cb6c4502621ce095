/*
 * The arguments of the kernels, one struct per kernel. core/cuda/args.go mirrors them field by
 * field (TestArgsMatchC compares sizes and offsets). core/cuda/geometry.go computes the fields that
 * follow from a shape. A pointer may be null only if its comment says "or null".
 *
 * Every array has fewer than 2^31 elements: geometry.go refuses other shapes.
 */
#pragma once

// Divisor divides 31-bit numbers by a number that the compiler does not know, with a multiplication
// and a shift (Granlund and Montgomery 1994).
struct Divisor {
  unsigned by, magic, shift;
};

// SplitK splits the sum over k of a matrix product into parts. Different blocks sum each part, and
// each warp of a block sums every fourth chunk of the block's part (gemm.cuh).
struct SplitK {
  int parts;   // 1 or more
  int chunks;  // per part; the last part may have fewer
};

// ConvShape is a Conv of core/kernel, planar, applied to `images` images.
struct ConvShape {
  int images, in_c, in_h, in_w, out_c, out_h, out_w, kernel, stride;
  Divisor positions;  // out_h * out_w
  Divisor width;      // out_w
  Divisor taps;       // kernel * kernel
  Divisor side;       // kernel
  // A cell is stride x stride inputs. A kernel is 2 or 3 cells wide. An image has cell_h x cell_w
  // cells, rounded up.
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
  const void *x;  // bytes in the conv_*_bytes kernels, float in all others
  const float *w, *b;
  float *y;
  float scale;  // factor of bytes; the float kernels do not read it
  int relu;
};

// dw and db from x and the gradient of y. With more than one part, the kernel writes `parts`
// instead, [parts][weights and biases], and weight_gradient_sum adds them up.
struct ConvWeightGradientArgs {
  ConvShape shape;
  const void *x;
  const float *dy;
  const float *y;  // or null: no ReLU
  float *dw, *db;
  float *parts;  // or null: split has one part
  SplitK split;
  float scale;
};

struct ConvInputGradientArgs {
  ConvShape shape;
  const float *w, *dy;
  const float *y;  // or null: no ReLU
  float *dx;
};

// y = act(x w' + b), x [rows, in], w [out, in]. With more than one part, the kernel writes `parts`
// instead of y, [parts][rows, out], and dense_forward_sum computes y.
struct DenseForwardArgs {
  int rows, in, out, relu;
  const float *x, *w, *b;
  float *y;
  float *parts;  // or null: split has one part
  SplitK split;
};

struct DenseForwardSumArgs {
  int rows, out, relu, parts_count;
  Divisor width;  // out
  const float *parts, *b;
  float *y;
};

struct DenseWeightGradientArgs {
  int rows, in, out;
  const float *x, *dy;
  const float *y;  // or null: no ReLU
  float *dw, *db;
  float *parts;  // or null: split has one part
  SplitK split;
};

struct DenseInputGradientArgs {
  int rows, in, out;
  const float *w, *dy;
  const float *y;  // or null: no ReLU
  float *dx;
};

// dw = scale * the sum of the parts' weights, db = the sum of the parts' biases.
struct WeightGradientSumArgs {
  int weights, biases, parts_count;
  float scale;
  const float *parts;  // [parts_count][weights + biases]
  float *dw, *db;
};

// elementwise.cu documents the fields, kernel by kernel.
struct ElementsArgs {
  long long n;
  const float *x, *y;
  float *to;
  float decay, factor;
};

// Copies minibatch first + *update, `words` numbers of 32 bits, to `to`.
struct SelectArgs {
  long long words, first;
  const long long *update;
  const unsigned *from;
  unsigned *to;
};

// Stack is one observation in an arena of frames. Its frames lie in a ring of `slots` slots that
// starts at slot `base`, with the oldest frame in slot `first`. The newest `frames` frames are
// valid; the older ones read as zeros.
struct Stack {
  int first, base, slots, frames;
};

// Row i of `to` is observation stacks[*update * rows + i]; without update, stacks[i].
struct GatherArgs {
  int rows, frames, width;  // frames per observation, bytes per frame
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

// Step is the state of an optimiser in GPU memory. The optimiser's kernel reads it for the current
// update; the host reads the results of a window of updates. Before a window the host writes all
// zeros, except for `step`. advance_step computes the other fields.
struct Step {
  long long update;           // applied updates of this window
  long long step;             // applied updates ever
  double loss, norm;          // of the current update
  double loss_sum, norm_sum;  // over the applied updates of this window
  float rate;                 // learning rate
  float size;                 // Adam, RAdam: learning rate with bias correction
  float root;                 // Adam: sqrt(1 - beta2^step)
  float grad_factor;          // clips the gradient
  int rectified;              // RAdam: divide by the second moment
  int apply;                  // 0: the current update is refused
  int refused;                // 0; 1: a loss was not finite; 2: a norm was not finite; stays set
  int reserved;
};

// max_norm 0: no clipping, and parts_count is 0. rule 0: rmsprop, adagrad; 1: adam; 2: radam.
struct AdvanceArgs {
  Step *step;
  const double *loss;   // or null
  const double *parts;  // [parts_count], from sum_squares
  const float *rates;   // learning rates
  long long first;      // index in rates of the window's first update
  double *record;       // or null: [updates of the window][2], gets the loss and the norm of each update
  double max_norm, beta1, beta2;
  int parts_count, rule;
};

// Sums the squares of x. The last block then runs advance_step.
struct SumSquaresArgs {
  long long n;
  const float *x;
  double *parts;      // one per 4096 numbers
  unsigned *arrived;  // 0
  AdvanceArgs advance;
};

// first: m of Adam and RAdam, the mean gradient of a centred RMSProp. second: v of Adam and RAdam,
// the running sum of squares of RMSProp and AdaGrad. RMSProp's decay is decay2.
struct OptimizerArgs {
  int n, centered, eps_inside;
  float decay1, weight1, decay2, weight2, eps;
  const Step *step;
  const float *grad;
  float *theta, *first, *second;
};

// All kernels of norm.cu take NormArgs, and each of them reads some of the fields.
struct NormArgs {
  int rows, channels, positions, relu;
  int part_rows;  // rows per part of the parameters' gradients
  float eps;
  const float *x, *scale, *bias;
  float *y;           // the forward pass writes y; the backward pass reads it if relu
  float *statistics;  // [rows][groups][2]: mean and 1 / deviation; in a forward pass, or null
  const float *dy;
  float *dx, *dscale, *dbias;
  float *parts;  // [parts][2][params]; or null: one part
};

// The most terms that a loss has.
const int LOSS_TERMS = 5;

// The last block of a loss adds up the terms of all blocks, which have 128 rows each. td_loss has 1
// term. actor_critic has 5: policy, value, entropy, divergence, and the share of clipped rows.
struct LossSumArgs {
  int terms;
  double entropy_coef, value_coef;
  double *parts;      // [blocks][LOSS_TERMS]; the first `terms` of a block are used
  unsigned *arrived;  // 0
  double *loss;       // [1 + terms]: the loss, then its terms
};

struct TDTargetsArgs {
  int rows, width;
  const float *next;   // [rows][width]
  const int *actions;  // of the next state; or null: the action with the largest value
  const float *rewards, *discounts;
  float *targets;
};

struct ArgmaxArgs {
  int rows, width;
  const float *values;         // [rows][width]
  const unsigned char *masks;  // [rows][width], 0: not allowed; or null: all actions are allowed
  int *actions;
};

// Values of TDLossArgs::importance: what an importance weight multiplies; see core/nn's TD.
const int IMPORTANCE_LOSS = 1, IMPORTANCE_GRADIENT = 2, IMPORTANCE_ERROR = 3;

// mean: divides by the sum of the rows' weights, or by their number if these are importance weights.
// scale multiplies the loss.
struct TDLossArgs {
  int rows, width, squared, mean;
  int importance;  // 0: weights are not importance weights
  float scale;
  const float *q;  // [rows][width]
  const int *actions;
  const float *targets;
  const float *weights;  // or null: every row has weight 1
  float *dq;
  const long long *update;  // or null: 0
  float *errors;            // [][rows]: magnitudes of the errors, of the current update at *update
  LossSumArgs sum;
};

// Values of ActorCriticArgs::regulariser; see core/kernel's Regulariser.
const int NO_REGULARISER = 0, REGULARISER_PLUS = 1, REGULARISER_MAX = 2;

// With log_probs, PPO's loss. Without log_probs, A2C's loss, which does not read clips, old_values
// and value_clips, and may have a regulariser.
struct ActorCriticArgs {
  int rows, width, largest_error, regulariser;
  float entropy_coef, value_coef, log_eps;
  const float *logits, *values;
  const int *actions;
  const unsigned char *masks;  // [rows][width]; or null: all actions are allowed
  const float *advantages, *returns, *weights;
  const float *log_probs, *clips, *old_values, *value_clips;
  float *dlogits, *dvalues;
  LossSumArgs sum;
};

// Actions of several branches, of independent Gaussians, or of both. loss.width is the sum of the
// branches; loss.actions is [rows][branches_count].
struct ActorCriticProductArgs {
  ActorCriticArgs loss;
  int branches_count, size;         // size: the number of Gaussians
  const int *branches;              // choices of each branch
  const float *means, *continuous;  // [rows][size]
  const float *log_std;             // [size]
  float *dmeans, *dlog_std;
  double *log_std_parts;  // [blocks][size]
};
