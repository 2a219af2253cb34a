"""What pages fetch: recorded, answered from a recording, or compared with one."""

from agentserve.browser.network.answering import Answering
from agentserve.browser.network.har import Har, read_har
from agentserve.browser.network.recording import NetworkRecording
from agentserve.browser.network.source import Network
from agentserve.browser.network.watching import Watching

__all__ = ["Answering", "Har", "Network", "NetworkRecording", "Watching", "read_har"]
