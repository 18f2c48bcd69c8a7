import Crypto

/// A key of the phone (ES256).
///
/// The page's browser holds the key and cannot export it. The phone sends texts to the page, which returns the signatures.
actor DeviceKey {
    /// A text for the page to sign.
    struct Order: Sendable {
        let number: Int
        let text: String
    }

    private(set) var orders: [Order] = []
    private var publicKey: P256.Signing.PublicKey?
    private var signatures: [Int: String] = [:]
    private var last = 0

    /// The public key as a JWK, for a proof; null while no page is open.
    var jwk: JSON { publicKey?.jwk ?? .null }

    /// Stores a page's public key, which all pages in the same browser share.
    func take(x: String, y: String) -> Bool {
        guard let x = Base64URL.decode(x), let y = Base64URL.decode(y), x.count == 32, y.count == 32,
            let key = try? P256.Signing.PublicKey(rawRepresentation: x + y)
        else { return false }
        publicKey = key
        return true
    }

    /// Stores a signature.
    ///
    /// Returns false in two cases: the text's number is unknown; or the signature is by another key, for example by the key of
    /// another browser.
    func take(signature: String, of number: Int) -> Bool {
        guard let order = orders.first(where: { $0.number == number }), let bytes = Base64URL.decode(signature),
            let made = try? P256.Signing.ECDSASignature(rawRepresentation: bytes),
            publicKey?.isValidSignature(made, for: Array(order.text.utf8)) == true
        else { return false }
        orders.removeAll { $0.number == number }
        signatures[number] = signature
        return true
    }

    /// Lets the page sign a text; returns nil if that takes longer than ten seconds.
    func sign(_ text: String) async -> String? { await signature(of: order(text), within: .seconds(10)) }

    /// Adds a text for the page to sign.
    func order(_ text: String) -> Int {
        last += 1
        orders.append(Order(number: last, text: text))
        return last
    }

    /// Waits for a signature; returns nil if it does not come in time, or if the text was withdrawn.
    func signature(of number: Int, within patience: Duration) async -> String? {
        let end = ContinuousClock.now + patience
        while orders.contains(where: { $0.number == number }), ContinuousClock.now < end {
            try? await Task.sleep(for: .milliseconds(10))
        }
        orders.removeAll { $0.number == number }
        return signatures.removeValue(forKey: number)
    }

    /// Withdraws all texts that wait to be signed.
    func takeBack() { orders.removeAll() }
}
