import Foundation

/// An answer as it came; the fields' names are in small letters.
struct Answer: Sendable {
    let status: Int
    let fields: [String: String]
    var body: Data

    /// The broker's own refusal, where it is one.
    var problem: Problem? {
        guard status >= 400, fields["content-type"]?.hasPrefix("application/problem+json") == true else { return nil }
        return try? Coding.decoder().decode(Problem.self, from: body)
    }

    /// The wait that the answer asks for.
    var retryAfter: Duration? { fields["retry-after"].flatMap { Int($0) }.map { .seconds($0) } }

    /// Returns the value that the answer sets a cookie to; empty where it deletes it.
    func cookie(_ name: String) -> String? {
        guard let field = fields["set-cookie"] else { return nil }
        // Several fields arrive as one. A comma is only in their dates, and a date's parts never begin like a cookie.
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
