/// A payment that the app offers, by its amount.
enum PlaygroundPayment: Int, Sendable {
    /// It wants a sign-in of the last minutes.
    case small = 20
    /// It wants the user's presence as well.
    case large = 500

    /// The relay's path.
    var target: String { "/v1/relay/shop/payments" + (self == .large ? "/large" : "") }

    /// The amount in words.
    var title: String { "\(rawValue) €" }
}

/// A payment that waits for the user to sign in again.
struct PendingPayment: Sendable {
    let payment: PlaygroundPayment
    /// Whether thieves wait for its confirmation.
    var isStolen = false
}
