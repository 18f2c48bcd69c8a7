/// A payment in the app, identified by its amount.
enum PlaygroundPayment: Int, Sendable {
    /// A payment that needs a recent sign-in.
    case small = 20
    /// A payment that also needs the user's presence.
    case large = 500

    /// The relay's path.
    var target: String { "/v1/relay/shop/payments" + (self == .large ? "/large" : "") }

    /// The amount in words.
    var title: String { "\(rawValue) €" }
}

/// A payment that waits for the user to sign in again.
struct PendingPayment: Sendable {
    let payment: PlaygroundPayment
    /// Whether thieves will try to use its confirmation.
    var isStolen = false
}
