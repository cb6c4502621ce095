package a3c

// This file is Algorithm S3 of Mnih et al. 2016, for each actor-learner thread. Its lines are in
// packages a2c and async; there is nothing else to an asynchronous method.
//
//	// Assume global shared parameter vectors theta and theta_v and global shared counter T = 0
//	                                                         async.Method.store, order.Turns
//	// Assume thread-specific parameter vectors theta' and theta'_v
//	                                                         async.learner.theta
//	repeat
//	  Reset gradients: d theta <- 0 and d theta_v <- 0       a gradient is computed as a whole
//	  Synchronize theta' = theta and theta'_v = theta_v      async.link.pull; with rule overwrite link.push
//	  t_start = t, get state s_t                             a2c: Window.Next
//	  repeat
//	    Perform a_t according to policy pi(a_t | s_t; theta')  async.learner.run: a2c's Round
//	    Receive reward r_t and new state s_t+1
//	    t <- t + 1, T <- T + 1                               async.learner.count
//	  until terminal s_t or t - t_start == t_max             a2c: Window.Full, at t_max alone
//	  R = 0 for terminal s_t, V(s_t, theta'_v) otherwise     a2c: Update
//	  for i in t - 1, ..., t_start do
//	    R <- r_i + gamma R
//	    Accumulate gradients wrt theta' and theta'_v
//	  end for
//	  Perform asynchronous update of theta using d theta     async.link.visit: link.push, param.Store.Push
//	    and of theta_v using d theta_v
//	until T > T_max                                          async.Method.Advance
