import Hummingbird

/// `/api/payments`: accepts payments, and lists the accepted ones.
struct Payments {
    let call: Call
    /// The grant of the request's token; nil if the route needs no token.
    let grant: Grant?
    /// The path after `/api` or `/api/private`.
    let path: String

    private static let kept = 100

    func answer() async throws -> Response {
        guard call.method == .post else {
            return .json(["payments": .array(call.state.with { $0.payments })])
        }
        let body = Array(try await call.request.body.collect(upTo: 16 << 10).readableBytesView)
        guard let order = try? JSON.parse(body), let amount = order["amount"]?.number, amount > 0 else {
            return .json(["error": "A payment has an amount, a whole number above zero."], status: 400)
        }
        let payment: JSON = [
            "id": .string(Random.token("pay-", bytes: 6)), "path": .string(path), "amount": .int(amount),
            "currency": .string(order["currency"]?.text ?? "EUR"),
            "by": grant.map { .string(call.state.user($0.user).sub) } ?? .null,
        ]
        call.state.with { storage in
            storage.payments.append(payment)
            storage.payments = storage.payments.suffix(Self.kept)
        }
        return .json(payment, status: 201)
    }
}
