package gorila

// This file is Algorithm 1 of Nair et al. 2015, "Distributed DQN Algorithm", for each bundle, and
// the safeguards of section 4.2. Its lines are in packages dqn, offpolicy, async and param.
//
//	Initialise replay memory D to size P.                    offpolicy.Run.Memory, of buffer_size / bundles
//	Initialise the training network with weights theta       offpolicy.Run.Theta, the same in every bundle
//	and target network with weights theta- = theta.          offpolicy.Run.ThetaMinus; DQN.updateTarget at t = 0
//	for episode = 1 to M do                                  async.learner.run, which environments' ends do not interrupt
//	  Initialise the start state to s_1.                     actor.Group
//	  Update theta from parameters theta+ of the server.     see the pull below
//	  for t = 1 to T do
//	    With probability epsilon take a random action a_t    DQN.explore: Run.Exploration, by updates of the server
//	    or else a_t = argmax_a Q(s, a; theta).               DQN.Round: actor "online"
//	    Execute the action, observe r_t and s_t+1.           actor.Group.Round
//	    Store (s_t, a_t, r_t, s_t+1) in D.                   Run.CatchUp: Flush
//	    Update theta from theta+.                            async.link.pull: param.Store.Pull of every shard
//	    Sample random mini-batch from D.                     offpolicy.updater.update: Draw, Gather
//	    y_t = r_i, if s_i+1 is terminal,                     nn.MaxQ: the discount of such a row is 0
//	    y_t = r_i + gamma max_a' Q(s_i+1, a'; theta-) else
//	    Calculate the loss L_t = (y_t - Q(s_i, a_i; theta))^2.  nn.TD, by the setting loss
//	    Compute gradients with respect to theta (equation 2).   nn.QStepper
//	    Send gradients to the parameter server.              async.link.push: param.Store.Push to every shard
//	    Every global N steps sync theta- with theta+.        DQN.updateTarget: N = target_update_interval updates of the server
//	  end for
//	end for
//
// Section 4.2:
//
//	a maximum delay between theta and theta+,                param.Store.Push: max_staleness
//	older gradients are discarded by the server
//	a running mean and deviation of the absolute loss,       offpolicy.outliers: the setting outliers
//	gradients far above are discarded by the learner
//	AdaGrad                                                  nn.OptimizerConfig; its sums are never reset
