from agentserve.cli import main

main()
