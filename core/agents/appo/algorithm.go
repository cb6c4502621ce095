package appo

// This file is the loop of a learner of section 5.3 and the update rule of appendix A of Stooke &
// Abbeel 2018. Its lines are in packages ppo, async and param.
//
//	repeat
//	  for every 64 steps of the sampling horizon                  async.learner.leg: pull_period
//	    pull theta from the central store                          async.learner.visits: order.PullAll
//	    sample with pi_theta                                       ppo: Round
//	  compute advantages                                           ppo: Update(0)
//	  for each minibatch of each epoch                             ppo: Update(0), Update(1), ...
//	    compute the gradient g                                     ppo: Run.Step, Run.Learn
//	    a local step of Adam; accumulate a_g, a_g2, a_s            param.Local.Step
//	    after n local steps:                                       async.link.visit, due by link.Apply: sync_period
//	      move the central theta, m and v; take them               param.Store.Push
//	  push what is left                                            async.link.endUpdate
