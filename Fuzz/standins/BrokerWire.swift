// Replaces the module BrokerWire for sources that import it. The fuzz target itself lists the needed sources of BrokerWire.
