/// An operation with its arguments, ready for a store to execute.
package typealias StoreWork<Value> = @Sendable (any BrokerStore) async throws(StoreFailure) -> Value
