//! The document's example is what the server answers.

use robinhood_cache_server::PartitionsView;

#[test]
fn the_example_in_the_document_has_the_form_of_an_answer() {
    let document = include_str!("../../../../docs/cache-server.md");
    let (_, example) = document.split_once("```json\n").expect("the document has an example");
    let (example, _) = example.split_once("```").expect("it ends");
    let view: PartitionsView = serde_json::from_str(example).unwrap();
    let again = serde_json::to_value(&view).unwrap();
    assert_eq!(again, serde_json::from_str::<serde_json::Value>(example).unwrap());
    assert_eq!(view.partitions[1].age_of_coldest_s, Some(3));
}
