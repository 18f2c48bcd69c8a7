import BrokerHTTP
import BrokerWire

/// Why a listener has no socket, in a sentence for the operator that says which one it is.
struct ListenerFailure: Error, CustomStringConvertible {
    let listener: ListenerName
    let reason: ListenFailure

    var description: String { "the \(listener.rawValue) listener: \(reason)" }
}
