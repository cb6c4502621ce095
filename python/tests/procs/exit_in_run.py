"""The interpreter exits while another thread is inside learn."""

import threading
import time
import warnings

from envs import SMALL
from paceline import DQN

warnings.simplefilter("ignore", ResourceWarning)
model = DQN("MlpPolicy", "CartPole-v1", num_envs=2, **SMALL)
threading.Thread(target=model.learn, args=(10**9,), kwargs={"log_interval": None}, daemon=True).start()
while model.num_timesteps == 0:
    time.sleep(0.001)
print("leaving", flush=True)
