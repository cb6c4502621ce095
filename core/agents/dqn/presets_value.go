package dqn

import (
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// This file has the presets of the value family: settings of published code, by the code's name.
// The numbers of frames in the sources are divided by 4, the frames of a step.
//
// The sources copy theta to theta-minus at multiples of C steps from step 0, we do at multiples of
// C from the first update. With learning_starts 20,000 and C 8,000 their first copy after it is at
// step 24,000, ours at 28,000.

// standard are the settings that most sources have: an update of 32 transitions every 4 steps. A
// preset names what its source has in their place.
var standard = []settings.Row{
	{"policy", "CnnPolicy"},
	{"num_envs", "1"},
	{"concurrent", "false"},
	{"synchronized", "true"},
	{"actor", "online"},
	{"batch_size", "32"},
	{"buffer_size", "1000000"},
	{"train_freq", "4"},
	{"gradient_steps", "1"},
	{"gamma", "0.99"},
	{"loss_reduction", "mean"},
	{"exploration_initial_eps", "1"},
	{"exploration_final_eps", "0.01"},
	{"device", "cpu"},
}

// c51 is the distribution of Bellemare et al. 2017: 51 atoms on [-10, 10].
var c51 = []settings.Row{{"distribution", "categorical"}, {"n_atoms", "51"}, {"v_min", "-10"}, {"v_max", "10"}}

// iqn is what both sources of IQN have: 64 taus that learn, 64 of the target, 64 cosines.
var iqn = []settings.Row{{"learning_rate", "5e-05"}, {"distribution", "implicit"}, {"kappa", "1"}, {"n_tau", "64"}, {"n_tau_target", "64"}, {"n_cosines", "64"}}

// dopamine has what all agents of Dopamine's JAX code share (jax/agents/*/configs/*.gin):
// min_replay_history, target_update_period, epsilon_decay_period, no clipping of gradients, the
// network's padding and initial weights. A truncated episode leaves out its last n-1 transitions
// (jax/replay_memory/accumulator.py).
var dopamine = slices.Concat(standard, []settings.Row{
	{"cnn", Dopamine},
	{"optimizer", "adam"},
	{"max_grad_norm", "0"},
	{"learning_starts", "20000"},
	{"target_update_interval", "8000"},
	{"exploration_steps", "250000"},
	{"n_step_tails", "drop_truncated"},
})

// dopamineGames is Machado's protocol as Dopamine has it (discrete_domains/atari_lib.py).
const dopamineGames = `{"recipe": "dopamine"}`

// dopamineReplay is Dopamine's prioritised replay over three steps (update_horizon, replay_scheme).
var dopamineReplay = []settings.Row{{"n_steps", "3"}, {"prioritized", "dopamine"}}

// zoo has what most agents of DQN Zoo have (*/run_atari.py): min_replay_capacity_fraction of
// replay_capacity, target_network_update_period, exploration_epsilon_decay_frame_fraction of 200
// million frames. Its network is the Nature CNN with the initial weights of "uniform".
var zoo = slices.Concat(standard, []settings.Row{
	{"learning_starts", "50000"},
	{"target_update_interval", "10000"},
	{"exploration_steps", "1000000"},
})

// zooGames has 1 to 30 frames of NOOP, a life's loss as a termination, and games of at most 108,000
// frames (gym_atari.py, processors.py).
const zooGames = `{"recipe": "mnih2015", "noop_min": 1, "noop_max": 31, "first_maxpool": false, "episodic_life": false, "life_loss_info": true, "max_num_frames_per_episode": 108000}`

// zooAdam is the optimiser of C51 and QR-DQN: optimizer_epsilon 0.01/32, max_global_grad_norm 10.
var zooAdam = []settings.Row{{"optimizer", "adam"}, {"optimizer_eps", "0.0003125"}, {"max_grad_norm", "10"}}

// stookeAbbeel has what the methods of Stooke & Abbeel 2018 share (accel_rl, algos/dqn and
// scripts/example). training_intensity is 8 uses of a transition, sampling_horizon 4. Epsilon is 1
// until the first update and then what its line from step 0 has reached. The source pads the second
// and third convolutions with zeros, which Paceline does not.
var stookeAbbeel = slices.Concat(standard, []settings.Row{
	{"max_grad_norm", "0"},
	{"learning_starts", "50000"},
	{"target_update_interval", "10000"},
	{"exploration_steps", "950000"},
	{"optimizer", "adam"},
})

// large are the settings of a batch of 512 transitions: 32 environments take 4 steps each, then
// there are 8*128/512 updates.
var large = []settings.Row{{"batch_size", "512"}, {"num_envs", "32"}, {"train_freq", "128"}, {"gradient_steps", "2"}}

// zooBeta is the end of DQN Zoo's importance_sampling_exponent_schedule, 200 iterations of a
// million frames. There beta rises from the first update on, here from step 0.
var zooBeta = settings.Row{"priority_beta_steps", "50000000"}

// rainbow has all parts of Rainbow but the number of steps.
var rainbow = slices.Concat(c51, []settings.Row{
	{"double_q", "true"}, {"dueling", "true"}, {"noisy", "true"}, {"noisy_sigma", "0.5"}, {"exploration_initial_eps", "0"}, {"exploration_final_eps", "0"},
	{"prioritized", "dqn_zoo"}, {"priority_alpha", "0.5"}, {"priority_beta", "0.4"}, {"priority_beta_final", "1"},
})

// ofValues are the presets of this file.
var ofValues = []settings.Preset{
	// Mean squared errors and Adam, as dqn.gin and dqn_agent.py have it; dqn of TensorFlow has
	// RMSProp.
	{Name: "dqn_dopamine", Doc: "DQN of Dopamine's JAX code", Rows: train.InGames(dopamineGames, dopamine, []settings.Row{
		{"learning_rate", "6.25e-05"}, {"optimizer_eps", "0.00015"}, {"loss", "squared"}})},
	// c51.gin since January 2024. Before, it had create_optimizer's defaults, those of dqn_dopamine.
	{Name: "c51_dopamine", Doc: "C51 of Dopamine's JAX code", Rows: train.InGames(dopamineGames, dopamine, c51, []settings.Row{
		{"learning_rate", "0.00025"}, {"optimizer_eps", "0.0003125"}})},
	// quantile.gin: three steps and priorities, which Dabney et al. 2018 do not have. Beta is 0: the
	// gradient of quantile_agent.py has no importance weights, which only the logged loss has there.
	{Name: "qr_dopamine", Doc: "quantile regression DQN of Dopamine's JAX code, with three steps and priorities", Rows: train.InGames(dopamineGames, dopamine, dopamineReplay, []settings.Row{
		{"learning_rate", "5e-05"}, {"optimizer_eps", "0.0003125"}, {"distribution", "quantile"}, {"n_quantiles", "200"}, {"kappa", "1"},
		{"priority_beta", "0"}, {"priority_beta_final", "0"}})},
	// rainbow.gin is C51 with three steps and priorities. The other parts of Rainbow are in
	// full_rainbow.gin.
	{Name: "rainbow_dopamine", Doc: "Rainbow of Dopamine's JAX code: C51, three steps, priorities", Rows: train.InGames(dopamineGames, dopamine, dopamineReplay, c51, []settings.Row{
		{"learning_rate", "6.25e-05"}, {"optimizer_eps", "0.00015"}})},
	// c51/run_atari.py.
	{Name: "c51_zoo", Doc: "C51 of DQN Zoo", Rows: train.InGames(zooGames, zoo, zooAdam, c51, []settings.Row{{"learning_rate", "0.00025"}})},
	// qrdqn/run_atari.py.
	{Name: "qr_zoo", Doc: "QR-DQN of DQN Zoo, with 201 quantiles", Rows: train.InGames(zooGames, zoo, zooAdam, []settings.Row{
		{"learning_rate", "5e-05"}, {"distribution", "quantile"}, {"n_quantiles", "201"}, {"kappa", "1"}})},
	// implicit_quantile.gin: three steps, uniform draws.
	{Name: "iqn_dopamine", Doc: "IQN of Dopamine's JAX code, with three steps", Rows: train.InGames(dopamineGames, dopamine, iqn, []settings.Row{
		{"optimizer_eps", "0.0003125"}, {"n_steps", "3"}, {"n_tau_act", "32"}})},
	// iqn/run_atari.py: no clipping; min_replay_capacity_fraction 0.02, tau_samples_policy 64.
	{Name: "iqn_zoo", Doc: "IQN of DQN Zoo", Rows: train.InGames(zooGames, zoo, zooAdam, iqn, []settings.Row{
		{"max_grad_norm", "0"}, {"learning_starts", "20000"}, {"n_tau_act", "64"}})},
	// prioritized/run_atari.py: learning_rate 0.00025/4, optimizer_epsilon 0.01/32²/16.
	// grad_error_bound 1/32 of a mean over 32 is huber's bound. The biases of the source's last layer
	// are one number.
	{Name: "prioritized_zoo", Doc: "Double DQN with prioritised replay of DQN Zoo", Rows: train.InGames(zooGames, zoo, []settings.Row{
		{"optimizer", "rmsprop_mnih"}, {"learning_rate", "6.25e-05"}, {"optimizer_eps", "6.103515625e-07"}, {"loss", "huber"}, {"max_grad_norm", "0"},
		{"double_q", "true"}, {"prioritized", "dqn_zoo"}, {"priority_alpha", "0.6"}, {"priority_beta", "0.4"}, {"priority_beta_final", "1"}, zooBeta,
		{"target_update_interval", "30000"}})},
	// Table 1 of the paper. The paper does not say that gradients are clipped. Its first author says
	// that they are (github.com/Kaixhin/Rainbow, pull request 73). The norm of 10 is that of DQN Zoo's
	// rainbow/run_atari.py. The formula of priorities is DQN Zoo's, too. The first learning_starts
	// steps are random here and in der_100k; DQN Zoo's agent acts by its noise from the first step on.
	{Name: "rainbow_hessel", Doc: "Rainbow of Hessel et al. 2018", Rows: train.InGames(zooGames, zoo, rainbow, []settings.Row{
		{"optimizer", "adam"}, {"learning_rate", "6.25e-05"}, {"optimizer_eps", "0.00015"}, {"max_grad_norm", "10"}, {"n_steps", "3"}, zooBeta,
		{"learning_starts", "20000"}, {"target_update_interval", "8000"}})},
	// The paper's numbers but for n_steps, noisy_sigma and max_grad_norm. The paper has 20 steps.
	// Dopamine's labs/atari_100k/configs/DER.gin has 10, after Schwarzer et al. 2021. Sigma 0.1 is
	// that of Dopamine (jax/networks.py, NoisyNetwork) and of Kaixhin's Rainbow (main.py), whose
	// README has this agent. The norm of 10 is Kaixhin's. Dopamine has a network of its own, and
	// epsilon 0.01 as well as the noise. There is one update a step, so the paper's 2,000 updates are
	// 2,000 steps.
	{Name: "der_100k", Doc: "data-efficient Rainbow of van Hasselt et al. 2019, for 100,000 steps, with Dopamine's ten steps of rewards", Rows: train.InGames(zooGames, zoo, rainbow, []settings.Row{
		{"cnn", DER}, {"optimizer", "adam"}, {"learning_rate", "0.0001"}, {"optimizer_eps", "0.00015"}, {"max_grad_norm", "10"},
		{"noisy_sigma", "0.1"}, {"n_steps", "10"}, {"train_freq", "1"}, {"buffer_size", "100000"}, {"learning_starts", "1600"}, {"target_update_interval", "2000"}})},
	// dqn.py. 7.5e-4 is the paper's learning rate for 512; the code has 2.5e-4 for 32.
	{Name: "dqn_stooke_abbeel", Doc: "DQN of Stooke & Abbeel 2018 with batches of 512 and the paper's learning rate", Rows: train.InGames(train.StookeAbbeelGames, stookeAbbeel, large, []settings.Row{
		{"optimizer", "rmsprop_lasagne"}, {"learning_rate", "0.00075"}, {"optimizer_eps", "1e-06"}, {"loss", "huber"},
		{"exploration_initial_eps", "0.955"}, {"exploration_final_eps", "0.1"}})},
	// 4.2e-4 is the paper's learning rate for 256 and more; the code has 2.5e-4. Eps is the code's
	// 0.01 divided by the batch size. 64 environments take 4 steps each, then there is one update. The
	// code clips probabilities to 1e-6 to 1 (cat_dqn.py).
	{Name: "catdqn_stooke_abbeel", Doc: "Categorical DQN of Stooke & Abbeel 2018 with batches of 2,048 and the paper's learning rate", Rows: train.InGames(train.StookeAbbeelGames, stookeAbbeel, c51, []settings.Row{
		{"batch_size", "2048"}, {"num_envs", "64"}, {"train_freq", "256"}, {"learning_rate", "0.00042"}, {"optimizer_eps", "4.8828125e-06"},
		{"least_prob", "1e-06"}, {"exploration_initial_eps", "0.9505"}})},
	// eps_rainbow.py: Rainbow with epsilon in the place of noisy networks. Eps is 0.005 divided by the
	// batch size.
	{Name: "rainbow_stooke_abbeel", Doc: "epsilon-Rainbow of Stooke & Abbeel 2018 with batches of 512 and the code's learning rate", Rows: train.InGames(train.StookeAbbeelGames, stookeAbbeel, large, c51, []settings.Row{
		{"learning_rate", "6.25e-05"}, {"optimizer_eps", "9.765625e-06"}, {"max_grad_norm", "10"},
		{"least_prob", "1e-06"}, {"double_q", "true"}, {"dueling", "true"}, {"dueling_rescaled", "true"}, {"n_steps", "3"},
		{"prioritized", "stooke_abbeel"}, {"priority_alpha", "0.5"}, {"priority_beta", "0.4"}, {"priority_beta_final", "1"}, {"priority_beta_steps", "50000000"},
		{"learning_starts", "20000"}, {"target_update_interval", "8000"}, {"exploration_initial_eps", "0.6832"}, {"exploration_steps", "42500"}})},
}
