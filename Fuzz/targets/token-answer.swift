// uses: BrokerProviders/Tokens/*.swift BrokerProviders/Transport/ProviderAnswer.swift BrokerProviders/Transport/HTTPDate.swift
// uses: BrokerProviders/JOSE/CompactToken.swift BrokerProviders/JOSE/SignatureAlgorithm.swift
import Broker
import NIOHTTP1

private let statuses = [200, 200, 200, 400, 401, 403, 404, 429, 500, 302, 201, 0]
private let types = [
    "application/json", "application/x-www-form-urlencoded", "text/plain; charset=utf-8", "text/html", "",
]
private let dialects = [
    TokenResponseSettings(),
    TokenResponseSettings(
        path: "/authed_user", fields: ["access_token": "token"], expiresField: "expires_in",
        refreshExpiresField: "refresh_token_expires_in", tokenTypes: ["user"], invalidGrantCodes: ["bad_refresh_token"]),
    TokenResponseSettings(
        deadGrants: [
            DeadGrantPlace(pointer: "/errors/*/errorType", values: ["invalid_grant"]),
            DeadGrantPlace(pointer: "/errors/*", values: ["dead"], statuses: [200, 400]),
        ]),
    TokenResponseSettings(
        expiresField: "access_token_expiration", refreshExpiresField: "refresh_token_expiration",
        expiresUnit: .epochSeconds, defaultLifetime: .seconds(3600)),
]

/// Parses answers of token endpoints.
///
/// The input's first three bytes choose status, media type and dialect. The line after them is `Retry-After`, and the rest is
/// the body.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let status = statuses[Int(input.byte()) % statuses.count]
    let type = types[Int(input.byte()) % types.count]
    let settings = dialects[Int(input.byte()) % dialects.count]
    let headers = HTTPHeaders([(name: "content-type", value: type), (name: "retry-after", value: input.line())])
    let answer = ProviderAnswer(status: status, headers: headers, body: input.bytes(), fault: nil)
    _ = try? TokenAnswer(settings: settings, scopeSeparator: " ", keepsRefreshToken: true)
        .refreshed(answer, nil, now: WallTime(seconds: 1_760_000_000))
    let parser = TokenAnswer(settings: settings, scopeSeparator: " ", keepsRefreshToken: true)
    let now = WallTime(seconds: 1_760_000_000)
    guard let tokens = try? parser.parse(answer, now: now) else { return 0 }
    let token = tokens.accessToken.reveal().utf8
    precondition(answer.isSuccess && (1...TokenAnswer.maximumTokenBytes).contains(token.count))
    precondition(token.allSatisfy { (0x21...0x7E).contains($0) })
    for end in [tokens.expiresAt, tokens.refreshExpiresAt] {
        if let end { precondition(end > now && end <= now.advanced(by: .seconds(Lifetime.longest))) }
    }
    return 0
}
