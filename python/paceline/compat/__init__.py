"""For scripts written for other libraries: atari (ale-py), envpool (EnvPool's calls), sb3 (stable-baselines3's VecEnv)."""
