/// The reason why listening failed, in a sentence for the operator.
package enum ListenFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// Another socket listens at the address.
    case inUse(String)
    /// The address cannot be listened on.
    case address(String, reason: String)
    /// The descriptor of a passed socket cannot be listened on.
    case descriptor(CInt, reason: String)

    package var description: String {
        switch self {
        case .inUse(let address): "\(address) is in use by another process"
        case .address(let address, let reason): "\(address) cannot be listened on: \(reason)"
        case .descriptor(let number, let reason): "descriptor \(number) \(reason)"
        }
    }
}
