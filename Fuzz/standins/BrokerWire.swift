// Stands in for BrokerWire where a source imports it: the target itself has those of its sources that are needed.
