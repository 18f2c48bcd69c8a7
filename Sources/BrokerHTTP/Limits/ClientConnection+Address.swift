import Broker
import BrokerWire

extension ClientConnection {
    /// The TCP peer's address.
    var address: IPAddress? { peer.map { IPAddress(high: $0.high, low: $0.low) } }
}
