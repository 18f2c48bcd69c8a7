import Crypto

/// A key of the phone (ES256), which the page's browser holds and cannot export: it is told what to sign, and says the signature.
actor DeviceKey {
    /// A text that the page is to sign.
    struct Order: Sendable {
        let number: Int
        let text: String
    }

    private(set) var orders: [Order] = []
    private var publicKey: P256.Signing.PublicKey?
    private var signatures: [Int: String] = [:]
    private var last = 0

    /// The public key, as a proof shows it; null while no page is open.
    var jwk: JSON { publicKey?.jwk ?? .null }

    /// Takes a page's public key; a page of the same browser has the same one.
    func take(x: String, y: String) -> Bool {
        guard let x = Base64URL.decode(x), let y = Base64URL.decode(y), x.count == 32, y.count == 32,
            let key = try? P256.Signing.PublicKey(rawRepresentation: x + y)
        else { return false }
        publicKey = key
        return true
    }

    /// Takes a signature; false where none of this number is waited for, or another key made it: a page's in another browser.
    func take(signature: String, of number: Int) -> Bool {
        guard let order = orders.first(where: { $0.number == number }), let bytes = Base64URL.decode(signature),
            let made = try? P256.Signing.ECDSASignature(rawRepresentation: bytes),
            publicKey?.isValidSignature(made, for: Array(order.text.utf8)) == true
        else { return false }
        orders.removeAll { $0.number == number }
        signatures[number] = signature
        return true
    }

    /// Has a text signed by the page; nil where none did within ten seconds.
    func sign(_ text: String) async -> String? { await signature(of: order(text), within: .seconds(10)) }

    /// Gives the page a text to sign.
    func order(_ text: String) -> Int {
        last += 1
        orders.append(Order(number: last, text: text))
        return last
    }

    /// Waits for a signature; nil where none came in time, or the order was taken back.
    func signature(of number: Int, within patience: Duration) async -> String? {
        let end = ContinuousClock.now + patience
        while orders.contains(where: { $0.number == number }), ContinuousClock.now < end {
            try? await Task.sleep(for: .milliseconds(10))
        }
        orders.removeAll { $0.number == number }
        return signatures.removeValue(forKey: number)
    }

    /// Takes all orders back.
    func takeBack() { orders.removeAll() }
}
