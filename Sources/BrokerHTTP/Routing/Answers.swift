import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// Makes responses with their constant fields.
///
/// The security fields and the request id are in every one (SEC-108).
enum Answers {
    /// Returns the fields that every answer begins with, with room for a few more.
    static func fields(_ requestID: String, cache: HTTPField = ConstantFields.noStore) -> [HTTPField] {
        var fields: [HTTPField] = []
        fields.reserveCapacity(16)
        fields.append(contentsOf: SecurityFields.all)
        fields.append(cache)
        fields.append(HTTPField(name: .requestID, value: requestID))
        return fields
    }

    /// Returns a JSON answer that nobody may store.
    static func json(
        _ status: HTTPResponse.Status, _ bytes: [UInt8], _ call: Call, adding extra: [HTTPField] = []
    ) -> Answer {
        var fields = fields(call.requestID)
        fields.append(ConstantFields.json)
        fields += extra
        return Answer(status, fields, body: .whole(ByteBuffer(bytes: bytes)))
    }

    /// Returns a JSON answer whose body is the same for everybody.
    static func json(_ status: HTTPResponse.Status, shared body: ByteBuffer, _ call: Call) -> Answer {
        var fields = fields(call.requestID)
        fields.append(ConstantFields.json)
        return Answer(status, fields, body: .whole(body))
    }

    /// Returns an answer without a body.
    static func empty(_ status: HTTPResponse.Status, _ call: Call, adding extra: [HTTPField] = []) -> Answer {
        var fields = fields(call.requestID)
        fields += extra
        return Answer(status, fields)
    }

    /// Returns a file that does not depend on who asks.
    static func file(_ file: ByteBuffer, type: HTTPField, _ call: Call) -> Answer {
        var fields = fields(call.requestID, cache: publicCache)
        fields.append(type)
        return Answer(.ok, fields, body: .whole(file))
    }

    private static let publicCache = HTTPField(name: .cacheControl, value: "public, max-age=300")
}
