"""What others build on our Protocols must keep: kits to run over a law or an actuator of your own."""
