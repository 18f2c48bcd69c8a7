import Foundation

/// An HTTP response as it arrived.
///
/// The names of the fields are in lower case.
struct Answer: Sendable {
    let status: Int
    let fields: [String: String]
    var body: Data

    /// The broker's refusal, if the response is one.
    var problem: Problem? {
        guard status >= 400, fields["content-type"]?.hasPrefix("application/problem+json") == true else { return nil }
        return try? Coding.decoder().decode(Problem.self, from: body)
    }

    /// The delay that the response asks for (`Retry-After` in seconds), or nil if it asks for none.
    var retryAfter: Duration? { fields["retry-after"].flatMap { Int($0) }.map { .seconds($0) } }

    /// Returns the value of a cookie that the response sets.
    ///
    /// The value is empty if the response deletes the cookie.
    func cookie(_ name: String) -> String? {
        guard let field = fields["set-cookie"] else { return nil }
        // The system joins several `Set-Cookie` fields with commas. Of the cookies' own contents, only dates contain
        // commas, and the rest of a date does not look like the start of a cookie.
        for part in field.components(separatedBy: ",") {
            let pair = part.split(separator: ";", omittingEmptySubsequences: false)[0]
            let text = pair.trimmingCharacters(in: .whitespaces)
            if text.hasPrefix("\(name)=") { return String(text.dropFirst(name.count + 1)) }
        }
        return nil
    }

    /// Returns the body, decoded.
    func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value {
        do { return try Coding.decoder().decode(type, from: body) } catch {
            throw CoatcheckError.notTheBroker(status: status)
        }
    }
}
