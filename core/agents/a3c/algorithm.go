package a3c

// This file is Algorithm S3 of Mnih et al. 2016, for each actor-learner thread. Its lines are in
// packages a2c and async; there is nothing else to an asynchronous method.
//
//	// Assume global shared parameter vectors theta and theta_v and global shared counter T = 0
//	                                                        async.Method.store, async.Turns
//	// Assume thread-specific parameter vectors theta' and theta'_v
//	                                                        async.learner.theta
//	repeat
//	  Reset gradients: d theta <- 0 and d theta_v <- 0       a gradient is computed as a whole
//	  Synchronize theta' = theta and theta'_v = theta_v      link.Apply, its pulls, at the end of an update
//	  t_start = t, get state s_t                             a2c: Window.Next
//	  repeat
//	    Perform a_t according to policy pi(a_t | s_t; theta') learner.take: a2c's Advance
//	    Receive reward r_t and new state s_t+1
//	    t <- t + 1, T <- T + 1                                learner.count
//	  until terminal s_t or t - t_start == t_max             a2c: Window.Full, at t_max alone
//	  R = 0 for terminal s_t, V(s_t, theta'_v) otherwise     a2c: Update
//	  for i in t - 1, ..., t_start do
//	    R <- r_i + gamma R
//	    Accumulate gradients wrt theta' and theta'_v
//	  end for
//	  Perform asynchronous update of theta using d theta     link.Apply, its pushes: param.Store.Push
//	    and of theta_v using d theta_v
//	until T > T_max                                          async.Method.Advance
