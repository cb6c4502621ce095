"""Interfaces of other libraries: atari (ale-py), envpool (EnvPool), sb3 (stable-baselines3's VecEnv)."""
