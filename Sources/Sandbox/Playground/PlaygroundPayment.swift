/// A payment in the app, identified by its amount.
enum PlaygroundPayment: Int, Sendable {
    /// A payment that needs a recent sign-in.
    case small = 20
    /// A payment that also needs the user's presence.
    case large = 500

    /// The path at the relay for this payment.
    var target: String { "/v1/relay/shop/payments" + (self == .large ? "/large" : "") }

    /// The amount as text, for example `5 €`.
    var title: String { "\(rawValue) €" }
}

/// A payment that waits until the user has signed in again.
struct PendingPayment: Sendable {
    let payment: PlaygroundPayment
    /// Whether thieves will try to reuse the payment's confirmation.
    var isStolen = false
}
