import Crypto
import Testing

@testable import Sandbox

/// The phone's key, which the browser of the playground's page stores.
@Suite("The device's key", .timeLimit(.minutes(1)))
struct DeviceKeyTests {
    private let browser = P256.Signing.PrivateKey()

    private func show(_ held: P256.Signing.PrivateKey, to key: DeviceKey) async throws -> Bool {
        let jwk = held.publicKey.jwk
        return try await key.take(x: #require(jwk["x"]?.text), y: #require(jwk["y"]?.text))
    }

    private func signature(_ text: String, by held: P256.Signing.PrivateKey) throws -> String {
        try Base64URL.encode(Array(held.signature(for: Array(text.utf8)).rawRepresentation))
    }

    @Test(
        "The page sends a public key outside of the curve, or a signature without a request to sign → the phone refuses it"
    )
    func refusals() async throws {
        let key = DeviceKey()
        let x = try #require(browser.publicKey.jwk["x"]?.text)
        #expect(await !key.take(x: "AA", y: x))
        #expect(await !key.take(x: x, y: x + "=="))
        #expect(await !key.take(x: x, y: Base64URL.encode([UInt8](repeating: 7, count: 32))))
        #expect(await key.jwk == .null)
        #expect(try await show(browser, to: key))
        #expect(await key.jwk == browser.publicKey.jwk)
        #expect(try await !key.take(signature: signature("text", by: browser), of: 1))
    }

    @Test(
        "A request to sign is cancelled, or not answered in time → no signature, and a later signature is refused",
        arguments: [true, false])
    func takenBack(_ isTakenBack: Bool) async throws {
        let key = DeviceKey()
        #expect(try await show(browser, to: key))
        let number = await key.order("text")
        let good = try signature("text", by: browser)
        async let waiting = key.signature(of: number, within: isTakenBack ? .seconds(50) : .milliseconds(20))
        if isTakenBack { await key.takeBack() }
        #expect(await waiting == nil)
        #expect(await !key.take(signature: good, of: number))
        #expect(await key.orders.isEmpty)
    }

    @Test(
        "The phone's request to sign gets a wrong signature → the request stays open until this key's right signature arrives"
    )
    func signing() async throws {
        let key = DeviceKey()
        #expect(try await show(browser, to: key))
        async let signed = key.sign("text")
        var orders = await key.orders
        while orders.isEmpty {
            await Task.yield()
            orders = await key.orders
        }
        let order = try #require(orders.first)
        #expect(order.text == "text")
        let good = try signature("text", by: browser)
        #expect(await !key.take(signature: "AA", of: order.number))
        #expect(await !key.take(signature: good, of: order.number + 1))
        #expect(try await !key.take(signature: signature("another", by: browser), of: order.number))
        #expect(try await !key.take(signature: signature("text", by: P256.Signing.PrivateKey()), of: order.number))
        #expect(await key.take(signature: good, of: order.number))
        #expect(await !key.take(signature: good, of: order.number))
        #expect(await signed == good)
        #expect(await key.orders.isEmpty)
    }
}
