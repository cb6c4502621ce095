"""For scripts written for other libraries: sb3 (stable-baselines3's VecEnv), envpool (EnvPool's calls)."""
